"""Fixtures of this folder, from a module that mypy can name."""

from gitops_fixtures import reader

__all__ = ["reader"]
