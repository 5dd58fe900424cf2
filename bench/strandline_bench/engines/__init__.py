"""Ours and other engines on the same work."""
