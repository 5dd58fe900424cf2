"""Where a video is cut: hard cuts seen in small pictures, and the rule of lengths. Pure.

A cut is a step between two pictures that is large, and much larger than those around it: noise and
fast motion are large steps too, but among their like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

SMALL = (32, 32)  # the pictures to be compared: more shows a cut no better, and costs more

_AROUND = 2  # steps before and after that a step is compared with
_RATIO = 3.0  # so many times larger than their mean
_WHITE = 255


class CutFinder:
    """Finds hard cuts in pictures that come one by one.

    Args:
        threshold: the least mean change of a level, from 0 to 1.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._last: Any = None
        self._steps: deque[tuple[Fraction, float]] = deque()  # not judged, and those before them
        self._judged = 0  # of those steps, how many only stand around others
        self._horizon: Fraction | None = None

    @property
    def horizon(self) -> Fraction | None:
        """The time up to which all cuts are known; None: no picture was judged yet."""
        return self._horizon

    def add(self, time: Fraction, picture: Any) -> Iterator[Fraction]:
        """Yield the times of the cuts that are known by a further picture, an array of levels."""
        levels = picture.astype("int16")
        if self._last is not None:
            step = float(abs(levels - self._last).mean()) / _WHITE
            self._steps.append((time, step))
            if len(self._steps) - self._judged > _AROUND:
                yield from self._judge()
        self._last = levels

    def finish(self) -> Iterator[Fraction]:
        """Yield the cuts among the last pictures."""
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
    """Chooses ends of clips among cuts, none closer than `shortest`, none farther than `longest`.

    Args:
        begin: of the first clip, in seconds, as all times are.
    """

    def __init__(self, begin: Fraction, shortest: Fraction, longest: Fraction) -> None:
        self._last = begin
        self._shortest, self._longest = shortest, longest
        self._cuts: deque[Fraction] = deque()

    def add(self, cut: Fraction) -> None:
        """Take a cut; they come in order."""
        self._cuts.append(cut)

    def choose(self, horizon: Fraction) -> Iterator[Fraction]:
        """Yield the ends that are certain when all cuts up to `horizon` are known."""
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
