"""Benchmarks of vectors and semantic duplicates."""
