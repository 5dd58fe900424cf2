"""Watches: the stream, its cache, and its memory use."""
