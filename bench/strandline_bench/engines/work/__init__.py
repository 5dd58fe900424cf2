"""The work of cases: rows, stages, and pipelines."""
