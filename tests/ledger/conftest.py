"""Fixtures of this folder, from a module that mypy can name."""

from ledger_fixtures import desk, store

__all__ = ["desk", "store"]
