"""Histograms with bins that are fixed in advance.

Adaptive bins would depend on the order of the numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple


class GrowingBins(NamedTuple):
    """Bins whose width grows with the number, plus a bin for zero.

    Attributes:
        per_doubling: number of bins between a number and twice that number.
    """

    per_doubling: int = 4

    def find(self, number: float) -> int:
        """Return the bin of a finite number.

        Bin 0 contains only zero. Negative numbers have negative bins.
        """
        if not number:
            return 0
        part, exponent = math.frexp(abs(number))
        # `part` is in [0.5, 1), so `2 * part - 1` is in [0, 1): the position between two powers of
        # two.
        step = int((2 * part - 1) * self.per_doubling)
        at = (exponent + _SHIFT) * self.per_doubling + step
        return int(math.copysign(at, number))

    def bound(self, at: int) -> tuple[float, float]:
        """Return the lower and upper bound of a bin."""
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
    """Bins of equal width between two numbers, plus a bin below and a bin above.

    Attributes:
        low, high: lower bound of the first bin and upper bound of the last bin.
        number: number of bins between `low` and `high`.
    """

    low: float
    high: float
    number: int = 32

    def find(self, number: float) -> int:
        """Return the bin of a finite number: -1 below `low`, and `number` at or above `high`."""
        if number < self.low:
            return -1
        if number >= self.high:
            return self.number
        at = int((number - self.low) / (self.high - self.low) * self.number)
        # Correct a rounding error of the division at an edge, so that the result agrees with
        # `bound`.
        at += (number >= self._edge(at + 1)) - (number < self._edge(at))
        return min(at, self.number - 1)

    def bound(self, at: int) -> tuple[float, float]:
        """Return the lower and upper bound of a bin."""
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
# `frexp` returns the exponent -1073 for the smallest float, so the shift makes exponents positive.
_SHIFT = 1075
_WIDEST_GAP = 64


class BinCount(NamedTuple):
    """A bin from `low` to `high`.

    For growing bins, the end nearer to zero belongs to the bin; for even bins, `low` does.
    """

    low: float
    high: float
    number: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values by bin. Empty bins are not stored."""

    bins: Bins = GROWING
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def from_numbers(cls, numbers: Iterable[float], bins: Bins = GROWING) -> Histogram:
        """Return the histogram of finite numbers."""
        return cls(bins, Counter(map(bins.find, numbers)))

    def __add__(self, other: Histogram) -> Histogram:
        if self.bins != other.bins:
            msg = f"histograms with different bins can't be joined: {self.bins} and {other.bins}"
            raise ValueError(msg)
        return Histogram(self.bins, self.counts + other.counts)

    def list_bins(self) -> list[BinCount]:
        """Return the bins in ascending order. Empty bins are included only in narrow gaps."""
        filled = sorted(self.counts)
        shown = dict.fromkeys(filled)
        for at, after in pairwise(filled):
            if after - at <= _WIDEST_GAP:
                shown |= dict.fromkeys(range(at, after))
        return [BinCount(*self.bins.bound(at), self.counts[at]) for at in sorted(shown)]

    def dump(self) -> list[Any]:
        """Return a plain list for `parse`."""
        return [list(self.bins), sorted(self.counts.items())]

    @classmethod
    def parse(cls, dumped: list[Any]) -> Histogram:
        """Return the histogram from the result of `dump`."""
        values, counts = dumped
        bins = GrowingBins(*values) if len(values) == 1 else EvenBins(*values)
        return cls(bins, Counter(dict(counts)))
