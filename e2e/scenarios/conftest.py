"""Fixtures of this folder, from a module that mypy can name."""

from scenario_fixtures import (
    figures,
    ground,
    installation,
    object_store,
    pytest_addoption,
    pytest_runtest_makereport,
    pytest_terminal_summary,
    records,
    release_before,
    unhurried,
)

__all__ = [
    "figures",
    "ground",
    "installation",
    "object_store",
    "pytest_addoption",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
    "records",
    "release_before",
    "unhurried",
]
