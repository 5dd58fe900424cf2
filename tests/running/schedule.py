"""Checks whether groups fit into a time budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Maximum slowdown. A first-tier run on another machine or beside other work measures the slowdown.
MOST_SLOWNESS = 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected duration of a group.

    Attributes:
        seconds: of its tests, as recorded.
        build_seconds: of its missing programs.
    """

    seconds: float
    build_seconds: float = 0.0


def measure_slowness(measured: float, recorded: float | None) -> float:
    """Return how much slower this machine is now than at the time of the record; at least 1.

    Args:
        measured: seconds of the first tier in this run.
        recorded: seconds of the first tier in the record, or None.
    """
    if not recorded or not measured:
        return 1.0
    return min(max(measured / recorded, 1.0), MOST_SLOWNESS)


def fits(estimate: Estimate, slowness: float, remaining: float) -> bool:
    """Return whether a group is expected to end within the remaining seconds."""
    return (estimate.seconds + estimate.build_seconds) * slowness <= remaining


def estimate_builds(
    builds: Iterable[str], is_built: Mapping[str, bool], seconds: Mapping[str, float]
) -> float:
    """Return the seconds of the missing builds."""
    return sum(seconds[name] for name in builds if not is_built[name])
