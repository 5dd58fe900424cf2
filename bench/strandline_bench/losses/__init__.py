"""Repeated work after lost nodes."""
