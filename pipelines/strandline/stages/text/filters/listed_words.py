"""Whether a text has a word of a list; it is looked for in time that follows the text's length.

Pure: text in, an answer out. It knows neither where lists come from nor what follows from one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_RUN = re.compile(r"\w+")


class WordFinder:
    """Looks for items, each one or several words, in any case.

    Without `anywhere`, no letter, digit or underscore may stand before or behind an item.

    Args:
        items: in lower case, none of them empty.
        anywhere: find them also inside words.
    """

    def __init__(self, items: Iterable[str], *, anywhere: bool = False) -> None:
        self._parts: list[str] = sorted(items) if anywhere else []
        self._words: set[str] = set()
        # Regular expressions of hundreds of items are slow, so one is asked for where its first
        # run of letters is a word of the text.
        self._phrases: dict[str, list[re.Pattern[str]]] = defaultdict(list)
        self._marks: list[re.Pattern[str]] = []
        for item in () if anywhere else sorted(items):
            self._add(item)

    def _add(self, item: str) -> None:
        if _RUN.fullmatch(item):
            self._words.add(item)
            return
        pattern = re.compile(rf"(?<!\w){re.escape(item)}(?!\w)")
        first = _RUN.search(item)
        if first is None:
            self._marks.append(pattern)
        else:
            self._phrases[first[0]].append(pattern)

    def is_found(self, text: str) -> bool:
        """Return whether a text has one of the items."""
        lowered = text.lower()
        if self._parts:
            return any(part in lowered for part in self._parts)
        runs = set(_RUN.findall(lowered))
        return (
            not self._words.isdisjoint(runs)
            or any(
                pattern.search(lowered)
                for run in runs & self._phrases.keys()
                for pattern in self._phrases[run]
            )
            or any(pattern.search(lowered) for pattern in self._marks)
        )
