"""Summarizes skipped tests in one line, because a hundred skip messages scroll past unread.

The line repeats the first words of each reason, and must not depend on their meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONGEST = 60


def describe_untested(reasons: Iterable[str]) -> str:
    """Describe skipped tests by reason, the most frequent first, or return an empty text."""
    counts = Counter(shorten(reason) for reason in reasons)
    if not counts:
        return ""
    parts = [f"{count} × {reason}" for reason, count in counts.most_common()]
    return f"not tested here: {counts.total()} tests: {'; '.join(parts)}"


def shorten(reason: str) -> str:
    """Return the first words of a reason, without its advice."""
    text = reason.removeprefix("Skipped: ").partition(":")[0].strip()
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST].rpartition(' ')[0]}…"
