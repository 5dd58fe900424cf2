"""What a run of the tests did not test, in one line: a hundred skips scroll past unread.

It must not know why a test is skipped: the first words of the reason are all it repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONGEST = 60


def describe_untested(reasons: Iterable[str]) -> str:
    """Describe skipped tests by their reasons, the most frequent first; empty where none was."""
    counts = Counter(shorten(reason) for reason in reasons)
    if not counts:
        return ""
    parts = [f"{count} × {reason}" for reason, count in counts.most_common()]
    return f"not tested here: {counts.total()} tests: {'; '.join(parts)}"


def shorten(reason: str) -> str:
    """Return what a reason says before its advice, at most some words of it."""
    text = reason.removeprefix("Skipped: ").partition(":")[0].strip()
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST].rpartition(' ')[0]}…"
