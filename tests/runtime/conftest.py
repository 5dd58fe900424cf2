"""Imports the fixtures of this folder from a module that mypy can import by name."""

from runtime_fixtures import (
    local_ray,
    pytest_runtest_teardown,
    ray_folder,
    small_job,
    small_manifest,
    small_whole,
)

__all__ = [
    "local_ray",
    "pytest_runtest_teardown",
    "ray_folder",
    "small_job",
    "small_manifest",
    "small_whole",
]
