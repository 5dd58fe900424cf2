"""Formats and parses amounts and times."""
