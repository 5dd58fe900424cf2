"""Rows of tables: filters by expression, samples, and rows of CSV and Arrow files."""
