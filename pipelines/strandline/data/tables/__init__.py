"""Rows and columns as all stages use them: schemas, rules for rows, and summaries."""
