"""Example counts of costly tests, as a share of the count of the loaded Hypothesis profile.

The option `--hypothesis-profile` and the Makefile choose the profile, never a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

FEWEST = 4  # with fewer, Hypothesis would try only the simplest examples


def scale_examples(of_hundred: int) -> int:
    """Return a percentage of the loaded profile's count. Call it while tests are collected."""
    return max(FEWEST, settings().max_examples * of_hundred // 100)


def spread(values: Sequence[T], most: int) -> list[T]:
    """Return at most `count` values at equal distances, with the first and the last."""
    count = min(most, len(values))
    if count < 2:  # a single value has no distance
        return list(values[:count])
    return [values[place * (len(values) - 1) // (count - 1)] for place in range(count)]
