"""The work that a case does: rows, stages, and pipelines."""
