"""Shared code of all benchmarks: sizes, tables, a local Ray cluster, and empty stages."""
