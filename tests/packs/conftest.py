"""Fixtures of this folder, from a module that mypy can name."""

from stage_fixtures import run, tree, videos

__all__ = ["run", "tree", "videos"]
