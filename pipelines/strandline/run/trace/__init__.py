"""Explains single rows of a run: their source, the stages' decisions, and the output."""
