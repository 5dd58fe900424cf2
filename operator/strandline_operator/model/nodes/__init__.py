"""Nodes: the marks that they bear, and their sizes."""
