"""Computes positions of times and numbers in charts, without producing markup."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from strandline.cli.views.format import format_time

GAP = 0.04  # longest displayed gap, as a share of the width of all attempts
LEAST_WORKED = 0.1  # gaps are shortened if attempts would take less than this share
ROOM = 0.33  # share of the width reserved for a tick's label
TICKS = 4
_DAY = 86400.0


class Span(NamedTuple):
    """A period of time, in seconds since the epoch."""

    begin: float
    end: float


class TimeAxis:
    """Maps times to positions from 0 to 1.

    The mapping is linear unless attempts would be too narrow to see. In that case, idle gaps are
    shortened, and the ticks mark the starts of attempts.

    Args:
        spans: times of activity, in any order; they may overlap.

    Attributes:
        breaks: start and end position of each shortened gap.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        merged = list(_merge(spans)) or [Span(0.0, 0.0)]
        worked = sum(end - begin for begin, end in merged)
        whole = merged[-1].end - merged[0].begin
        longest = GAP * worked if worked < LEAST_WORKED * whole else math.inf
        self._times: list[float] = []
        positions: list[float] = []
        at, shortened = 0.0, []
        self._begins = [0.0]
        for begin, end in merged:
            if self._times:
                idle = begin - self._times[-1]
                at += min(idle, longest)
                if idle > longest:
                    shortened.append((positions[-1], at))
                    self._begins.append(at)
            self._times += [begin, end]
            positions += [at, at + (end - begin)]
            at = positions[-1]
        # If no attempt has a duration, avoid a division by zero.
        whole = at or 1.0
        self._begins = [begin / whole for begin in self._begins]
        # Because of rounding errors, the quotient may exceed 1.
        self._positions = [min(1.0, position / whole) for position in positions]
        ends = ((left / whole, right / whole) for left, right in shortened)
        self.breaks = [(left, min(1.0, right)) for left, right in ends]

    def find_position(self, time: float) -> float:
        """Return the position of a time, from 0 to 1."""
        return _interpolate(self._times, self._positions, time)

    def find_time(self, position: float) -> float:
        """Return the time that corresponds to a position on the axis."""
        return _interpolate(self._positions, self._times, position)

    def list_ticks(self) -> list[tuple[float, str]]:
        """Return tick positions with their formatted times."""
        begin, end = self._times[0], self._times[-1]
        form = "%H:%M:%S" if end - begin < _DAY else "%m-%d %H:%M"
        positions = [number / (TICKS - 1) for number in range(TICKS)]
        if begin == end:
            positions = [0.0]
        elif self.breaks:
            positions = list(self._choose_begins())
        return [(position, format_time(self.find_time(position), form)) for position in positions]

    def _choose_begins(self) -> Iterator[float]:
        """Yield the starts of activity that have enough space for a label, and finally 1."""
        last = -ROOM
        for begin in self._begins:
            # A label in the last third of the width would overlap the label at the end.
            if last + ROOM <= begin <= 1 - ROOM:
                last = begin
                yield begin
        yield 1.0


def ceil_nice(number: float) -> float:
    """Round up to the next 1, 2, or 5 times a power of ten. Return 1 for zero."""
    if number <= 0 or not math.isfinite(number):
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    # For numbers above 5, the step is 10. If rounding makes the logarithm too small, it is 20.
    return next(step * power for step in (1, 2, 5, 10, 20) if step * power >= number)


def _merge(spans: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    # Skip damaged records that contain NaN, which can't be sorted.
    for span in sorted(candidate for candidate in spans if all(map(math.isfinite, candidate))):
        if last is not None and span.begin <= last.end:
            last = Span(last.begin, max(last.end, span.end))
            continue
        if last is not None:
            yield last
        # The end can precede the start if a clock was set back.
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
