"""The benchmarks: a package per subject. `bench/run.py` prints their tables."""
