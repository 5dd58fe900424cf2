"""Runs one call of a stage: runs the author's code, and counts the results."""
