"""Fixtures of this folder, from a module that mypy can name."""

from store_fixtures import store

__all__ = ["store"]
