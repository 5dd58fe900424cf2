"""Shared basis of all benchmarks: sizes, tables, a local Ray cluster, and empty stages."""
