"""Scripts, and which measures of prose mean nothing in them.

Rules of filters were found on English pages. In a script in which a letter is a syllable, or in
which no mark ends a sentence, some of them say nothing about a text, and drop all that there are.
It knows scripts and measures, no filter and no limit. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from functools import cache

import regex

LATIN = "Latin"
# Chinese and Japanese are written with several, which are one here.
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
_LOOKED_AT = 4000


class ProseMeasure(StrEnum):
    """What a rule is about."""

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
# Words of many letters and signs, which Unicode counts as characters of their own.
_LONG = frozenset({"Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thaana"})
_MEANINGLESS = {
    ProseMeasure.WORD_LENGTH: _UNSPACED | _SYLLABLES | _LONG,
    ProseMeasure.WORDS_OF_A_LINE: _UNSPACED | {"Tibetan"},
    # Thirty characters are a sentence in them.
    ProseMeasure.LINE_LENGTH: frozenset({"Han", "Hangul", "Yi"}),
    # A blank or a line ends a sentence, or a mark that ends clauses too.
    ProseMeasure.STOPS: frozenset(
        {"Thai", "Lao", "Tibetan", "Tai_Tham", "New_Tai_Lue", "Tai_Viet"}
    ),
}


def find_script(text: str) -> str:
    """Return the script of most letters of a text's beginning; empty where it has no letter."""
    if text.isascii():
        return LATIN
    totals: Counter[str] = Counter()
    for letter, count in Counter(text[:_LOOKED_AT]).items():
        totals[_find_script_of(letter)] += count
    del totals[""]
    # Of as many letters, the first by name: the answer is the same in every process.
    return min(totals, key=lambda name: (-totals[name], name), default="")


def applies(measure: ProseMeasure, script: str, count: Callable[[str], None]) -> bool:
    """Return whether a measure says something about texts in a script.

    Args:
        count: called with a counter's name where it does not, so that its rule is not asked.
    """
    if script not in _MEANINGLESS.get(measure, ()):
        return True
    count(name_skipped(measure, script))
    return False


def name_skipped(measure: ProseMeasure, script: str) -> str:
    """Return the counter of texts of which a rule was not asked."""
    return f"no rule in {script or 'texts without letters'}: {measure}"


@cache
def _find_script_of(letter: str) -> str:
    if letter.isascii():
        return LATIN if letter.isalpha() else ""
    return next((_NAMES[name] for name, pattern in _PATTERNS.items() if pattern.match(letter)), "")
