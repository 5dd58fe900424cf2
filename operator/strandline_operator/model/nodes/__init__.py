"""Nodes: marks and sizes."""
