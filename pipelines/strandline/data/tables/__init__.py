"""Rows and columns as all stages know them: schemas, rules over rows, summaries."""
