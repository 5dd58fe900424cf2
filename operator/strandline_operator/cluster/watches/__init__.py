"""Watches of objects: the streams, their caches, and their memory use."""
