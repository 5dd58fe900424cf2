"""Marks and sizes of nodes, as plain data."""
