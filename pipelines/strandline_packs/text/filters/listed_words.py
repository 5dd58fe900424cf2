"""Searches for listed words, in time proportional to the length of the text.

This module does no I/O, and must not depend on the origin of lists, or the effect of a match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import regex

from strandline_packs.text.filters.words.word_rules import (
    LETTER,
    compose,
    list_runs,
)


class WordFinder:
    """Searches for items of one or several words, ignoring case.

    Unless `anywhere` is set, no letter, digit, or underscore may be adjacent to an item.

    Args:
        items: non-empty items in lower case.
        anywhere: also match inside words.
    """

    def __init__(self, items: Iterable[str], *, anywhere: bool = False) -> None:
        items = {compose(item) for item in items} - {""}
        self._parts: list[str] = sorted(items) if anywhere else []
        self._words: set[str] = set()
        # Regular expressions with hundreds of items are slow, so each is tried only if the first
        # word of its item occurs in the text.
        self._phrases: dict[str, list[regex.Pattern[str]]] = defaultdict(list)
        self._marks: list[regex.Pattern[str]] = []
        for item in () if anywhere else sorted(items):
            self._add(item)

    def _add(self, item: str) -> None:
        runs = list_runs(item)
        # A single word needs no expression: compare with the set of the text's words.
        if runs == [item]:
            self._words.add(item)
            return
        pattern = regex.compile(rf"(?<!{LETTER}){regex.escape(item)}(?!{LETTER})")
        if not runs:
            self._marks.append(pattern)
        else:
            self._phrases[runs[0]].append(pattern)

    def is_found(self, text: str) -> bool:
        """Return whether a text has one of the items."""
        lowered = compose(text.lower())
        if self._parts:
            return any(part in lowered for part in self._parts)
        runs = set(list_runs(lowered))
        return (
            not self._words.isdisjoint(runs)
            or any(
                pattern.search(lowered)
                for run in runs & self._phrases.keys()
                for pattern in self._phrases[run]
            )
            or any(pattern.search(lowered) for pattern in self._marks)
        )
