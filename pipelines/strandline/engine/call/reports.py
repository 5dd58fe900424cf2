"""Sentences that stages report from their workers, on their way to people. Pure.

It must not know what a sentence says, nor where it is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST_SENTENCES = 100  # waiting to be asked for; older ones are dropped


class FirstTimes:
    """Passes sentences on, each once: workers that ask one server report the same of it.

    Args:
        note: takes them.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._recent: deque[str] = deque(maxlen=MOST_SENTENCES)

    def __call__(self, sentence: str) -> None:
        """Pass a sentence on, unless it was lately."""
        if sentence not in self._recent:
            self._recent.append(sentence)
            self._note(sentence)
