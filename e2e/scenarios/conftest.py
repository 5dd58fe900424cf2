"""Fixtures of this folder, imported from a module that mypy can name."""

from scenario_fixtures import (
    figures,
    ground,
    installation,
    object_store,
    pytest_addoption,
    pytest_configure,
    pytest_configure_node,
    pytest_terminal_summary,
    pytest_testnodedown,
    pytest_unconfigure,
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
    "pytest_configure",
    "pytest_configure_node",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_unconfigure",
    "records",
    "release_before",
    "unhurried",
]
