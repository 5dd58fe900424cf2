"""Ratios that must not be passed: what a release would lose without anybody's notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from strandline_bench.history.figures import Figure


def list_unmet(floors: Mapping[str, float], figures: Mapping[str, Figure]) -> Iterator[str]:
    """Yield a sentence for each floor that is not held, or was not measured.

    Args:
        floors: by what is measured; of a figure that should be small it is the most.
    """
    for what, floor in floors.items():
        figure = figures.get(what)
        if figure is None:
            yield f"{what}: not measured; was it renamed?"
        elif figure.is_worse(Figure(floor, figure.unit, figure.has_ceiling)):
            word = "more" if figure.has_ceiling else "less"
            yield f"{what}: {figure.number:g} {figure.unit}, {word} than {floor:g}"


def read_floors(file: Path) -> dict[str, dict[str, float]]:
    """Return the floors of a file, by the names of what measures them.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
    """
    return tomllib.loads(file.read_text(encoding="utf-8"))
