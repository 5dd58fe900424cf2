"""The lowest versions that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9][0-9.]*)")
# pip installs the others, and can't be held back while it does.
LEFT = {"pip"}


def list_lowest(requirements: Iterable[str]) -> list[str]:
    """Return a pin at its lower bound for each library, the highest where it has several.

    Args:
        requirements: as pyproject.toml writes them, such as `ray[data]>=2.50,<3`.

    Raises:
        ValueError: one has no lower bound, so nobody can say what it works with.
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
    """The extras, with what each needs."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def read_requirements(extras: Iterable[str]) -> list[str]:
    """What is installed with Strandline and some of its extras."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    needed = [line for extra in extras for line in read_extras()[extra]]
    return [*project["dependencies"], *needed]
