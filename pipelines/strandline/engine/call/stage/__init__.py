"""Runs one call of one stage: the author's code, and the counts around it."""
