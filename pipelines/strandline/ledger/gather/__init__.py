"""Merges and verifies the pieces that sources add to a stage's summary.

The package must not depend on the content of summaries.
"""
