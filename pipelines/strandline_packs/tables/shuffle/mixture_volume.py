"""Defines the wanted and actual amounts of each data set in a mixture.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MixtureVolume:
    """Amount of a data set or stratum in a mixture.

    Attributes:
        wanted, taken: amounts in the unit of the budget.
        rows: number of taken rows.
    """

    wanted: int
    taken: int
    rows: int

    def __add__(self, other: MixtureVolume) -> MixtureVolume:
        sums = map(sum, zip(astuple(self), astuple(other), strict=True))
        return MixtureVolume(*sums)

    def dump(self) -> list[int]:
        """Return the fields as a list for `parse`."""
        return list(astuple(self))

    @classmethod
    def parse(cls, dumped: list[Any]) -> MixtureVolume:
        """Restore a volume from the result of `dump`."""
        return cls(*dumped)


def describe_shares(volumes: Mapping[str, MixtureVolume]) -> dict[str, dict[str, float]]:
    """Return the wanted and actual amounts by name, with their shares of the total."""
    whole = sum(volumes.values(), MixtureVolume(0, 0, 0))
    return {
        name: {
            "wanted": volume.wanted,
            "taken": volume.taken,
            "wanted_share": volume.wanted / max(whole.wanted, 1),
            "share": volume.taken / max(whole.taken, 1),
            "rows": volume.rows,
        }
        for name, volume in sorted(volumes.items())
    }
