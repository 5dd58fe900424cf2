"""How many examples a costly law is given, where a cheap one is given a hundred.

It must not know which profile is chosen: `--hypothesis-profile` says so, and the Makefile that.
"""

from __future__ import annotations

from hypothesis import settings

FEWEST = 4  # with less than that, nothing but the simplest examples would be tried


def scale_examples(of_hundred: int) -> int:
    """That share of what the chosen profile gives; read while tests are collected."""
    return max(FEWEST, settings().max_examples * of_hundred // 100)
