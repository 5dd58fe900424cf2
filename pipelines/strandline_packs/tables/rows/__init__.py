"""Rows of tables: which of them stay by an expression, and those of CSV and Arrow files."""
