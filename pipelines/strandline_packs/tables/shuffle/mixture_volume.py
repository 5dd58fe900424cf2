"""What a mixture has of each data set, as it was wanted and as it became. Pure; sums only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MixtureVolume:
    """What of a data set, or of a stratum, is in a mixture.

    Attributes:
        wanted, taken: in the unit of the budget.
        rows: that were taken.
    """

    wanted: int
    taken: int
    rows: int

    def __add__(self, other: MixtureVolume) -> MixtureVolume:
        sums = map(sum, zip(astuple(self), astuple(other), strict=True))
        return MixtureVolume(*sums)

    def dump(self) -> list[int]:
        """Dump it as a plain list; `parse` reads it."""
        return list(astuple(self))

    @classmethod
    def parse(cls, dumped: list[Any]) -> MixtureVolume:
        """Read what `dump` gave."""
        return cls(*dumped)


def describe_shares(volumes: Mapping[str, MixtureVolume]) -> dict[str, dict[str, float]]:
    """Return by name what was wanted and what is there, with their shares of the whole."""
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
