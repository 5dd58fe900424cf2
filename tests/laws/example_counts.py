"""Example counts of costly tests, as a share of the count of the loaded Hypothesis profile.

The option `--hypothesis-profile` and the Makefile choose the profile, never a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

FEWEST = 4  # fewer examples would be only the simplest ones


def scale_examples(of_hundred: int) -> int:
    """Return a percentage of the loaded profile's count. Call it while tests are collected."""
    return max(FEWEST, settings().max_examples * of_hundred // 100)


def spread(values: Sequence[T], most: int) -> list[T]:
    """Return at most so many values at equal distances, with the first and the last one."""
    count = min(most, len(values))
    if count < 2:  # no distance between one value
        return list(values[:count])
    return [values[place * (len(values) - 1) // (count - 1)] for place in range(count)]
