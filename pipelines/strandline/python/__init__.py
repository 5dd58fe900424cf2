"""Strandline from Python: a pipeline put together, run, shown, interrupted, and what it came to."""
