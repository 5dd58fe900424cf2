"""Checks ratios against limits, so that a release does not regress unnoticed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from strandline_bench.history.figures import Figure


def list_unmet(floors: Mapping[str, float], figures: Mapping[str, Figure]) -> Iterator[str]:
    """Yield a sentence for each limit that a figure misses or that has no measurement.

    Args:
        floors: limits by measured quantity. A limit is a maximum if less is better.
    """
    for what, floor in floors.items():
        figure = figures.get(what)
        if figure is None:
            yield f"{what}: not measured; was it renamed?"
        elif figure.is_worse(Figure(floor, figure.unit, figure.has_ceiling)):
            word = "more" if figure.has_ceiling else "less"
            yield f"{what}: {figure.number:g} {figure.unit}, {word} than {floor:g}"


def read_floors(file: Path) -> dict[str, dict[str, float]]:
    """Return the limits in a TOML file, by benchmark.

    Raises:
        tomllib.TOMLDecodeError: if the file is not TOML.
    """
    return tomllib.loads(file.read_text(encoding="utf-8"))
