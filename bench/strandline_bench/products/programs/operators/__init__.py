"""Operators of a user's own, as files that a recipe names."""
