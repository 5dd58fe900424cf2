"""Rows of a table: their requests, and their results after the answers."""
