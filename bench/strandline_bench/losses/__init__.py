"""Measures the work that is repeated after lost nodes."""
