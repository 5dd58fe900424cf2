"""Checks whether groups fit into a time budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Maximum slowness that is assumed. The slowness is measured with the first tier, which another
# machine or other work may slow down.
MOST_SLOWNESS = 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected duration of a group.

    Attributes:
        seconds: recorded seconds of its tests.
        build_seconds: seconds to build its missing programs.
    """

    seconds: float
    build_seconds: float = 0.0


def measure_slowness(measured: float, recorded: float | None) -> float:
    """Return the current duration as a multiple of the recorded duration, at least 1.

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
    """Return the seconds to build the programs that are not built."""
    return sum(seconds[name] for name in builds if not is_built[name])
