"""Fixtures of this folder, from a module that mypy can name."""

from store_fixtures import cloud, store

__all__ = ["cloud", "store"]
