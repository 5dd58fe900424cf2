"""Stages that drop rows of another corpus by a Bloom filter."""
