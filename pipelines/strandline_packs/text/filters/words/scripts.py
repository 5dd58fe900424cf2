"""Finds the script of a text, and the measures of prose that are meaningless for a script.

Filter rules come from English pages. If letters are syllables, or no mark ends a sentence, some
rules would drop every text. This module does no I/O, and must not depend on filters or limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from functools import cache

import regex

LATIN = "Latin"
# Chinese and Japanese mix several scripts, which count as one script here.
_HAN = "Han"
_NAMES = {
    name: name
    for name in (
        "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Bengali", "Gurmukhi",
        "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao",
        "Khmer", "Myanmar", "Tibetan", "Ethiopic", "Georgian", "Armenian", "Hangul", "Mongolian",
        "Thaana", "Syriac", "Cherokee", "Canadian_Aboriginal", "Yi", "Vai", "Javanese", "Balinese",
        "Tai_Tham", "New_Tai_Lue", "Tai_Viet", "Nko", "Tifinagh", "Adlam", "Ol_Chiki",
    )
} | {"Han": _HAN, "Hiragana": _HAN, "Katakana": _HAN, "Bopomofo": _HAN}  # fmt: skip
_PATTERNS = {name: regex.compile(rf"\p{{Script={name}}}") for name in _NAMES}
_LOOKED_AT = 4000  # number of characters to examine


class ProseMeasure(StrEnum):
    """The property of a text that a rule measures."""

    WORD_LENGTH = "mean word length"
    WORDS_OF_A_LINE = "words of a line"
    LINE_LENGTH = "length of lines"
    STOPS = "marks that end sentences"
    STOP_WORDS = "stop words"


_UNSPACED = frozenset(
    {"Han", "Thai", "Lao", "Khmer", "Myanmar", "Javanese", "Balinese", "Tai_Tham", "New_Tai_Lue",
     "Tai_Viet"}
)  # fmt: skip
_SYLLABLES = frozenset(
    {"Hangul", "Tibetan", "Ethiopic", "Cherokee", "Canadian_Aboriginal", "Yi", "Vai"}
)
# Scripts with long words: Unicode counts their vowel signs as characters.
_LONG = frozenset({"Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thaana"})
_MEANINGLESS = {
    ProseMeasure.WORD_LENGTH: _UNSPACED | _SYLLABLES | _LONG,
    ProseMeasure.WORDS_OF_A_LINE: _UNSPACED | {"Tibetan"},
    # In these scripts, thirty characters form a whole sentence.
    ProseMeasure.LINE_LENGTH: frozenset({"Han", "Hangul", "Yi"}),
    # In these scripts, sentences end in a blank, a line end, or a mark that also ends clauses.
    ProseMeasure.STOPS: frozenset(
        {"Thai", "Lao", "Tibetan", "Tai_Tham", "New_Tai_Lue", "Tai_Viet"}
    ),
}


def find_script(text: str) -> str:
    """Return the most frequent script of letters at the start of a text, or an empty string."""
    if text.isascii():
        return LATIN
    totals: Counter[str] = Counter()
    for letter, count in Counter(text[:_LOOKED_AT]).items():
        totals[_find_script_of(letter)] += count
    del totals[""]  # drop signs, and letters of unlisted scripts
    # Break ties by name, so that every process gives the same answer.
    return min(totals, key=lambda name: (-totals[name], name), default="")


def applies(measure: ProseMeasure, script: str, count: Callable[[str], None]) -> bool:
    """Return whether a measure is meaningful in a script.

    Args:
        count: called with the name of a counter if the measure is skipped.
    """
    if script not in _MEANINGLESS.get(measure, ()):
        return True
    count(name_skipped(measure, script))
    return False


def name_skipped(measure: ProseMeasure, script: str) -> str:
    """Return the name of the counter for texts that skip a rule."""
    return f"no rule in {script or 'texts without letters'}: {measure}"


@cache
def _find_script_of(letter: str) -> str:
    if letter.isascii():
        return LATIN if letter.isalpha() else ""
    return next((_NAMES[name] for name, pattern in _PATTERNS.items() if pattern.match(letter)), "")
