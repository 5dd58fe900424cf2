"""Rows of the benchmark tables, and their Markdown format.

This module must not depend on the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a benchmark table, with one measurement.

    Attributes:
        what: the measured quantity, with its conditions.
        measured: the number with its unit.
        target: the goal; empty for a row that is only for comparison.
        is_reached: None if there is no target or no measurement.
    """

    what: str
    measured: str
    target: str = ""
    is_reached: bool | None = None

    @property
    def verdict(self) -> str:
        """Return whether the target is reached: `yes`, `no`, or a dash if there is no target."""
        return "–" if self.is_reached is None else "yes" if self.is_reached else "no"


def bound(what: str, measured: float, target: float, unit: str) -> Row:
    """Return a row whose number must not exceed its target."""
    return Row(
        what, format_number(measured, unit), f"≤ {format_number(target, unit)}", measured <= target
    )


def reach(what: str, measured: float, target: float, unit: str) -> Row:
    """Return a row whose number must reach its target."""
    return Row(
        what, format_number(measured, unit), f"≥ {format_number(target, unit)}", measured >= target
    )


def format_number(number: float, unit: str) -> str:
    """Format a number with its unit, with about three significant digits."""
    size = abs(number)
    if size < 0.005:
        text = "0"
    elif size >= 100 or number == int(number):
        text = f"{number:,.0f}"
    else:
        text = f"{number:.1f}" if size >= 10 else f"{number:.2f}"
    return f"{text} {unit}".rstrip()


def format_markdown(rows: Sequence[Row]) -> str:
    """Format the rows as a Markdown table, padded to be readable as plain text."""
    cells = [(row.what, row.measured, row.target or "–", row.verdict) for row in rows]
    cells.insert(0, ("what", "measured", "target", "reached"))
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"
