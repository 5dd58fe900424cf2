"""Example counts of costly tests, as percentages of the loaded Hypothesis profile's count.

The option `--hypothesis-profile` and the Makefile choose the profile, never a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

FEWEST = 4  # with fewer examples, Hypothesis would try only the simplest


def scale_examples(of_hundred: int) -> int:
    """Return a percentage of the loaded profile's count. Call it while tests are collected."""
    return max(FEWEST, settings().max_examples * of_hundred // 100)


def spread(values: Sequence[T], most: int) -> list[T]:
    """Return at most `most` of the values at equal distances, including the first and the last."""
    count = min(most, len(values))
    if count < 2:  # a distance needs two values
        return list(values[:count])
    return [values[place * (len(values) - 1) // (count - 1)] for place in range(count)]
