"""Imports the fixtures of this folder from a module that mypy can check."""

from store_fixtures import cloud, every_cloud, fresh_file_systems, store

__all__ = ["cloud", "every_cloud", "fresh_file_systems", "store"]
