"""Measures that distinguish prose from menus, lists, code, and noise.

The measures follow the published rules of the Gopher and C4 corpora. This module takes text,
returns numbers, and does no I/O.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from strandline_packs.text.filters.words.punctuation import TERMINAL_MARKS
from strandline_packs.text.filters.words.scripts import LATIN, find_script
from strandline_packs.text.filters.words.stop_words import STOP_WORDS
from strandline_packs.text.filters.words.word_rules import (
    compose,
    has_letter,
    list_words,
)

_BULLETS = ("-", "*", "•", "‣", "◦", "·", "–", "+")
_ELLIPSES = ("...", "…")
_ENDS = ('"', "”", "’", "»", "…", ":", ")", "」", "』", *TERMINAL_MARKS)


class TextMeasures(NamedTuple):
    """Measures of a text.

    Attributes:
        words: number of words; in scripts without blanks, letters are words.
        mean_word_length: mean length of words in characters; 0 if there are no words.
        script: the script of most letters.
        symbol_ratio: number of `#` and ellipses per word.
        letter_words: share of words that contain a letter.
        bullet_lines, ellipsis_lines, ended_lines: share of lines that start with a bullet, end in
            an ellipsis, or end in a punctuation mark.
        repeated_lines: share of lines that equal an earlier line.
    """

    words: int
    mean_word_length: float
    script: str
    symbol_ratio: float
    letter_words: float
    bullet_lines: float
    ellipsis_lines: float
    ended_lines: float
    repeated_lines: float


def measure_text(text: str) -> TextMeasures:
    """Compute the measures of a text; shares of an empty text are 0."""
    text = compose(text)
    words = list_words(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    number, total = len(words), len(lines)
    symbols = text.count("#") + text.count("...") + text.count("…")
    repeats = sum(Counter(lines).values()) - len(set(lines))
    return TextMeasures(
        words=number,
        mean_word_length=_share(sum(map(len, words)), number),
        script=find_script(text),
        symbol_ratio=_share(symbols, number),
        letter_words=_share(sum(map(has_letter, words)), number),
        bullet_lines=_share(sum(line.startswith(_BULLETS) for line in lines), total),
        ellipsis_lines=_share(sum(line.endswith(_ELLIPSES) for line in lines), total),
        ended_lines=_share(sum(line.endswith(_ENDS) for line in lines), total),
        repeated_lines=_share(repeats, total),
    )


def count_stop_words(text: str, language: str) -> int | None:
    """Return the number of different stop words of a language in a text.

    Return None if the language has no list, or the text is not in Latin script.
    """
    if language not in STOP_WORDS or find_script(text) != LATIN:
        return None
    words = {word.lower() for word in list_words(compose(text))}
    return sum(word in words for word in STOP_WORDS[language])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
