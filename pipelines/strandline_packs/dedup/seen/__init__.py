"""Rows of one corpus that are dropped from others, told by a Bloom filter."""
