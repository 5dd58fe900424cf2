"""Rows and columns as used by all stages: schemas, rules for rows, and summaries."""
