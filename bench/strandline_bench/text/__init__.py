"""Compares stages for text with other implementations."""
