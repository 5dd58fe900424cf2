"""Stages for text, compared with other implementations."""
