"""Token counts reported by servers.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_TOKENS = 1 << 40


def read_count(usage: Mapping[str, Any], *names: str) -> int:
    """Return the token count under the first name that has a valid count, or 0."""
    for name in names:
        number = usage.get(name)
        # Rejects NaN, infinity, and numbers whose sums would exceed 64 bits.
        if isinstance(number, int | float) and 0 < number < _MOST_TOKENS:
            return int(number)
    return 0
