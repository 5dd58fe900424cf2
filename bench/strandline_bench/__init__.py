"""The benchmarks, one package per subject. `bench/run.py` prints their tables."""
