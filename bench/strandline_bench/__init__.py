"""The benchmarks: each room measures one thing, and `bench/run.py` prints their tables."""
