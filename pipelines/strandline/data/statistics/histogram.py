"""How numbers are spread over bins that are fixed before the first of them is seen.

Bins that adapt to the numbers would depend on the order in which these come.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple


class GrowingBins(NamedTuple):
    """Bins that get wider with the number: so many to a doubling, zero in one of its own.

    Attributes:
        per_doubling: bins between a number and twice that number.
    """

    per_doubling: int = 4

    def find(self, number: float) -> int:
        """Return the bin of a finite number.

        0 is zero's, and bins below it are of negative numbers.
        """
        if not number:
            return 0
        part, exponent = math.frexp(abs(number))
        step = int((2 * part - 1) * self.per_doubling)
        at = (exponent + _SHIFT) * self.per_doubling + step
        return int(math.copysign(at, number))

    def bound(self, at: int) -> tuple[float, float]:
        """Return where a bin begins and ends."""
        if not at:
            return 0.0, 0.0
        low, high = self._edge(abs(at)), self._edge(abs(at) + 1)
        return (low, high) if at > 0 else (-high, -low)

    def _edge(self, at: int) -> float:
        exponent, step = divmod(at, self.per_doubling)
        try:
            return math.ldexp(1 + step / self.per_doubling, exponent - _SHIFT - 1)
        except OverflowError:
            return math.inf


class EvenBins(NamedTuple):
    """Bins of one width between two numbers; what lies below or above has a bin of its own.

    Attributes:
        low, high: where the first bin begins and the last one ends.
        number: how many there are.
    """

    low: float
    high: float
    number: int = 32

    def find(self, number: float) -> int:
        """Return the bin of a finite number; -1 is below `low`, `number` is from `high` on."""
        if number < self.low:
            return -1
        if number >= self.high:
            return self.number
        at = int((number - self.low) / (self.high - self.low) * self.number)
        # the division may round across an edge, which `bound` tells otherwise
        at += (number >= self._edge(at + 1)) - (number < self._edge(at))
        return min(at, self.number - 1)

    def bound(self, at: int) -> tuple[float, float]:
        """Return where a bin begins and ends."""
        if at < 0:
            return -math.inf, self.low
        if at >= self.number:
            return self.high, math.inf
        low, high = (self._edge(each) for each in (at, at + 1))
        return low, high

    def _edge(self, at: int) -> float:
        return self.low + (self.high - self.low) * at / self.number


Bins = GrowingBins | EvenBins
GROWING = GrowingBins()
# Frexp gives the smallest float there is an exponent of -1073; bins of numbers begin at 1.
_SHIFT = 1075
_WIDEST_GAP = 64


class BinCount(NamedTuple):
    """A bin from `low` to `high`; the end nearer to zero belongs to it, of even bins `low`."""

    low: float
    high: float
    number: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many numbers are in each bin; bins without any are not kept."""

    bins: Bins = GROWING
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, numbers: Iterable[float], bins: Bins = GROWING) -> Histogram:
        """Return the histogram of finite numbers."""
        return cls(bins, Counter(map(bins.find, numbers)))

    def __add__(self, other: Histogram) -> Histogram:
        if self.bins != other.bins:
            msg = f"histograms of other bins can't be joined: {self.bins} and {other.bins}"
            raise ValueError(msg)
        return Histogram(self.bins, self.counts + other.counts)

    def list_bins(self) -> list[BinCount]:
        """Return the bins from left to right, without wide gaps between them."""
        filled = sorted(self.counts)
        shown = dict.fromkeys(filled)
        for at, after in pairwise(filled):
            if after - at <= _WIDEST_GAP:
                shown |= dict.fromkeys(range(at, after))
        return [BinCount(*self.bins.bound(at), self.counts[at]) for at in sorted(shown)]

    def dump(self) -> list[Any]:
        """Dump it as a plain list; `parse` reads it."""
        return [list(self.bins), sorted(self.counts.items())]

    @classmethod
    def parse(cls, dumped: list[Any]) -> Histogram:
        """Read what `dump` gave."""
        values, counts = dumped
        bins = GrowingBins(*values) if len(values) == 1 else EvenBins(*values)
        return cls(bins, Counter(dict(counts)))
