"""Rows of a table: the requests that they need, and what becomes of them with the answers."""
