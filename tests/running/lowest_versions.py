"""Computes the lowest versions that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9][0-9.]*)")
# pip installs the other libraries, so its own version can't be constrained.
LEFT = {"pip"}


def list_lowest(requirements: Iterable[str]) -> list[str]:
    """Pin each library to its lower bound. If there are several bounds, the highest counts.

    Args:
        requirements: requirements as in pyproject.toml, such as `ray[data]>=2.50,<3`.

    Raises:
        ValueError: if a library has no lower bound.
    """
    lowest: dict[str, tuple[int, ...]] = {}
    for requirement in requirements:
        found = BOUND.match(requirement)
        if found is None:
            msg = f"{requirement} has no lower bound; write NAME>=VERSION"
            raise ValueError(msg)
        name = found[1].lower()
        version = tuple(int(part) for part in found[2].split("."))
        lowest[name] = max(version, lowest.get(name, version))
    return [
        f"{name}=={'.'.join(map(str, version))}"
        for name, version in sorted(lowest.items())
        if name not in LEFT
    ]


def read_extras() -> dict[str, list[str]]:
    """Return the extras with their requirements."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def read_requirements(extras: Iterable[str]) -> list[str]:
    """Return Strandline's requirements with some extras."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    needed = [line for extra in extras for line in read_extras()[extra]]
    return [*project["dependencies"], *needed]
