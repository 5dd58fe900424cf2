"""Where a moment or a number is drawn: pure arithmetic, no markup."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from strandline.cli.views.format import format_time

GAP = 0.04  # idle time between two attempts takes at most this share of what they worked
TICKS = 4
_DAY = 86400.0


class Span(NamedTuple):
    """A stretch of time, in seconds since the epoch."""

    begin: float
    end: float


class TimeAxis:
    """Time from 0 to 1; long stretches in which nothing ran are shortened.

    Args:
        spans: in which something ran, in any order; they may overlap.

    Attributes:
        breaks: where time was shortened, each as its two ends on the axis.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        merged = list(_merge(spans)) or [Span(0.0, 0.0)]
        worked = sum(end - begin for begin, end in merged)
        longest = GAP * worked
        self._times: list[float] = []
        places: list[float] = []
        at, shortened = 0.0, []
        for begin, end in merged:
            if self._times:
                idle = begin - self._times[-1]
                at += min(idle, longest)
                if idle > longest:
                    shortened.append((places[-1], at))
            self._times += [begin, end]
            places += [at, at + (end - begin)]
            at = places[-1]
        whole = at or 1.0
        self._places = [min(1.0, place / whole) for place in places]
        ends = ((left / whole, right / whole) for left, right in shortened)
        self.breaks = [(left, min(1.0, right)) for left, right in ends]

    def place(self, time: float) -> float:
        """Where a moment is, from 0 to 1."""
        return _interpolate(self._times, self._places, time)

    def find_time(self, place: float) -> float:
        """Which moment is there."""
        return _interpolate(self._places, self._times, place)

    def list_ticks(self) -> list[tuple[float, str]]:
        """Even places with the time at each, as short as it may be."""
        begin, end = self._times[0], self._times[-1]
        form = "%H:%M:%S" if end - begin < _DAY else "%m-%d %H:%M"
        places = [number / (TICKS - 1) for number in range(TICKS)]
        if begin == end:
            places = [0.0]
        return [(place, format_time(self.find_time(place), form)) for place in places]


def ceil_nice(number: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is no less; 1 for nothing."""
    if number <= 0 or not math.isfinite(number):
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(step * power for step in (1, 2, 5, 10, 20) if step * power >= number)


def _merge(spans: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for span in sorted(one for one in spans if all(map(math.isfinite, one))):
        if last is not None and span.begin <= last.end:
            last = Span(last.begin, max(last.end, span.end))
            continue
        if last is not None:
            yield last
        last = Span(span.begin, max(span.begin, span.end))
    if last is not None:
        yield last


def _interpolate(known: Sequence[float], values: Sequence[float], at: float) -> float:
    if at <= known[0]:
        return values[0]
    if at >= known[-1] or math.isnan(at):
        return values[-1]
    right = bisect_right(known, at)
    left, step = known[right - 1], known[right] - known[right - 1]
    share = (at - left) / step
    return values[right - 1] + share * (values[right] - values[right - 1])
