"""Decides where to cut a video: finds hard cuts in small pictures, and limits lengths.

A cut is a difference between two pictures that is large, and much larger than the differences
around it. Noise and fast motion cause large differences too, but always several in a row. This
module does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

SMALL = (32, 32)  # size of the compared pictures; larger ones cost more and find no more cuts

_AROUND = 2  # neighbors on both sides with which a difference is compared
_RATIO = 3.0  # minimum ratio of a cut to the mean of its neighbors
_WHITE = 255


class CutFinder:
    """Finds hard cuts in pictures that arrive one at a time.

    Args:
        threshold: minimum mean change of a pixel level, from 0 to 1.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._last: Any = None
        # Differences that are not judged yet, and the neighbors before them.
        self._steps: deque[tuple[Fraction, float]] = deque()
        self._judged = 0  # number of leading differences that only serve as neighbors
        self._horizon: Fraction | None = None

    @property
    def horizon(self) -> Fraction | None:
        """Time up to which all cuts are known, or None before the first judged picture."""
        return self._horizon

    def add(self, time: Fraction, picture: Any) -> Iterator[Fraction]:
        """Add a picture, an array of levels, and yield the times of newly detected cuts."""
        levels = picture.astype("int16")  # differences need a sign
        if self._last is not None:
            step = float(abs(levels - self._last).mean()) / _WHITE
            self._steps.append((time, step))
            if len(self._steps) - self._judged > _AROUND:
                yield from self._judge()
        self._last = levels

    def finish(self) -> Iterator[Fraction]:
        """Yield the cuts among the last pictures, which `add` could not judge yet."""
        while self._judged < len(self._steps):
            yield from self._judge()

    def _judge(self) -> Iterator[Fraction]:
        time, step = self._steps[self._judged]
        first, last = max(self._judged - _AROUND, 0), self._judged + _AROUND + 1
        around = [
            value
            for at, (_, value) in enumerate(self._steps)
            if first <= at < last and at != self._judged
        ]
        mean = sum(around) / len(around) if around else 0.0
        if step >= self._threshold and step >= _RATIO * mean:
            yield time
        self._horizon = time
        self._judged += 1
        if self._judged > _AROUND:
            self._steps.popleft()
            self._judged -= 1


class Lengths:
    """Chooses the ends of clips among cuts, with lengths between `shortest` and `longest`.

    Args:
        begin: start of the first clip. All times are in seconds.
    """

    def __init__(self, begin: Fraction, shortest: Fraction, longest: Fraction) -> None:
        self._last = begin
        self._shortest, self._longest = shortest, longest
        self._cuts: deque[Fraction] = deque()

    def add(self, cut: Fraction) -> None:
        """Add a cut. Cuts arrive in order."""
        self._cuts.append(cut)

    def choose(self, horizon: Fraction) -> Iterator[Fraction]:
        """Yield the ends that no cut after `horizon` can change."""
        while True:
            while self._cuts and self._cuts[0] < self._last + self._shortest:
                self._cuts.popleft()
            limit = self._last + self._longest
            if self._cuts and self._cuts[0] <= limit:
                self._last = self._cuts.popleft()
            elif horizon >= limit:
                self._last = limit
            else:
                return
            yield self._last
