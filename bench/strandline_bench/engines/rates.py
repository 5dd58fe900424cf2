"""Computes a pipeline's time to full speed and its steady rate from output times."""

from __future__ import annotations

from collections.abc import Sequence

from strandline_bench.engines.records import Mark

_STEADY = (0.6, 0.9)  # the part of the outputs that counts as steady: from 60 % to 90 %


def find_time_to_rate(
    marks: Sequence[Mark], begun: float, rate: float, window: float
) -> float | None:
    """Return the seconds until the end of the first window with at least this rate.

    Args:
        marks: recorded batches in order of time.
        begun: start time of the run.
        rate: items per second.
        window: seconds; the first window begins with the run.
    """
    first = total = 0
    for index, mark in enumerate(marks):
        total += mark.summary.items
        while marks[first].time <= mark.time - window:
            total -= marks[first].summary.items
            first += 1
        if mark.time - begun >= window and total >= rate * window and index > first:
            return mark.time - begun
    return None


def find_steady_rate(marks: Sequence[Mark]) -> float:
    """Return items per second in the later part of a run, without its tail.

    Raises:
        ValueError: if there are too few outputs to measure.
    """
    whole = sum(mark.summary.items for mark in marks)
    done, seen = 0, []
    for mark in marks:
        done += mark.summary.items
        if whole * _STEADY[0] <= done <= whole * _STEADY[1]:
            seen.append((mark.time, done))
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        raise ValueError("too few items came out to tell a rate")
    return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])
