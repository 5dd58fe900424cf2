"""Disturbs runs from outside, with the same mechanisms as in production."""
