"""Count, mean, variance, and range of numbers.

Sums are exact fractions instead of floats. Therefore, addition is associative to the last bit, and
a killed and resumed run has the same moments as an uninterrupted run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of finite numbers.

    Attributes:
        count: how many numbers were added.
        total, squares: exact sums of the numbers and of their squares.
        least, greatest: minimum and maximum, or None if there are no numbers.
    """

    count: int = 0
    total: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    least: float | None = None
    greatest: float | None = None

    @classmethod
    def from_numbers(cls, numbers: Iterable[float]) -> Moments:
        """Return the moments of finite numbers."""
        totals: dict[int, int] = defaultdict(int)
        squares: dict[int, int] = defaultdict(int)
        values = list(numbers)
        for value in values:
            above, below = value.as_integer_ratio()
            # Sum numerators by denominator: adding integers is much faster than adding fractions.
            totals[below] += above
            squares[below] += above * above
        return cls(
            len(values),
            sum((Fraction(above, below) for below, above in totals.items()), Fraction(0)),
            sum((Fraction(above, below**2) for below, above in squares.items()), Fraction(0)),
            min(map(_plain, values), default=None),
            max(map(_plain, values), default=None),
        )

    def __add__(self, other: Moments) -> Moments:
        ranges = [each for each in (self, other) if each.count]
        return Moments(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            min((each.least for each in ranges if each.least is not None), default=None),
            max((each.greatest for each in ranges if each.greatest is not None), default=None),
        )

    @property
    def mean(self) -> float | None:
        """The mean, or None if there are no numbers or a float can't represent the mean."""
        return _round(self.total / self.count) if self.count else None

    @property
    def variance(self) -> float | None:
        """The mean squared distance from the mean, or None if `mean` is None."""
        if not self.count:
            return None
        return _round((self.squares - self.total**2 / self.count) / self.count)

    @property
    def deviation(self) -> float | None:
        """The square root of the variance, or None if `mean` is None."""
        variance = self.variance
        return None if variance is None else math.sqrt(variance)

    def describe(self) -> dict[str, float | None]:
        """Return the numbers to show."""
        return {
            "min": self.least,
            "max": self.greatest,
            "mean": self.mean,
            "deviation": self.deviation,
        }

    def dump(self) -> list[Any]:
        """Return a plain list for `parse`."""
        return [self.count, str(self.total), str(self.squares), self.least, self.greatest]

    @classmethod
    def parse(cls, dumped: list[Any]) -> Moments:
        """Return the moments from the result of `dump`."""
        count, total, squares, least, greatest = dumped
        return cls(count, Fraction(total), Fraction(squares), least, greatest)


def _plain(number: float) -> float:
    return float(number) + 0.0  # adding zero turns negative zero into zero


def _round(number: Fraction) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None
