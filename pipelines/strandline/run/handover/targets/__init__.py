"""Targets of a push that are no tables: a folder, and a hub."""
