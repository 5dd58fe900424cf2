"""Reads numbers from the benchmark tables.

This module does no I/O, and must not depend on how a number was measured.
"""

from __future__ import annotations

import re
from typing import NamedTuple

RATIOS = ("×", "%")
_ROW = re.compile(r"^\| (.+?) +\| (.+?) +\| (.+?) +\| (?:yes|no|–) +\|$", re.MULTILINE)
_TIME = re.compile(r"[\d,.]+ s\b")
_NUMBER = re.compile(r"([\d,]*\d(?:\.\d+)?) ?(×|%|[^\s,\d]+)")


class Figure(NamedTuple):
    """A number from a table.

    Attributes:
        unit: unit of the number; "×" for a multiple of another measurement of the same run.
        has_ceiling: whether less is better, or None if the number has no target.
    """

    number: float
    unit: str
    has_ceiling: bool | None

    @property
    def is_ratio(self) -> bool:
        """Return whether the number is nearly independent of the machine."""
        return self.unit in RATIOS

    def is_worse(self, other: Figure) -> bool:
        """Return whether the number is worse than another of the same row."""
        return self.number > other.number if self.has_ceiling else self.number < other.number


def read_figures(text: str) -> dict[str, Figure]:
    """Return the figures of all tables in a text, by measured quantity.

    A row's figure is its ratio if it has a ratio, otherwise its first number. Rows without a number
    are left out.
    """
    figures = {}
    for what, measured, target in _ROW.findall(text):
        numbers = _NUMBER.findall(measured)
        if numbers:
            ratios = [each for each in numbers if each[1] == "×"]
            number, unit = (ratios or numbers)[0]
            has_ceiling = None if target[0] not in "≤≥" else target[0] == "≤"
            figures[what] = Figure(float(number.replace(",", "")), unit, has_ceiling)
    return figures


def read_commands(text: str, what: str) -> dict[str, float]:
    """Return the seconds of each command in the rows that compare commands for one task.

    Args:
        what: start of the rows; a colon and the command's name follow. Commands that did not end
            are left out.
    """
    rows = (row for row in _ROW.findall(text) if row[0].startswith(what) and _TIME.match(row[1]))
    return {
        name.partition(": ")[2]: float(measured.split()[0].replace(",", ""))
        for name, measured, _ in rows
    }
