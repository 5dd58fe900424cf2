"""Imports the fixtures of this folder from modules that mypy can check."""

from conformance import runs
from runtime_fixtures import local_ray, pytest_runtest_teardown, ray_folder

__all__ = ["local_ray", "pytest_runtest_teardown", "ray_folder", "runs"]
