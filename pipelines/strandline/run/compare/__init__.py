"""Compares two data sets or recipes: fingerprints, counts, and rows."""
