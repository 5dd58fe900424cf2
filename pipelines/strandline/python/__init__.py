"""The Python API: build and run a pipeline, display progress, and read the outcome."""
