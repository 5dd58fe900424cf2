"""Measures of a text's make-up that tell prose from menus, lists, code and noise.

The measures follow the published rules of the Gopher and C4 corpora. Pure: text in, numbers out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

# letters of scripts that are written without blanks count as words by themselves
_UNSPACED = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:['’-][^\W{_UNSPACED}]+)*")
_ASCII_WORD = re.compile(r"\w+(?:['-]\w+)*", re.ASCII)
_UNSPACED_LETTER = re.compile(rf"[{_UNSPACED}]")
_MOST = 0.5
_BULLETS = ("-", "*", "•", "‣", "◦", "·", "–", "+")
_ELLIPSES = ("...", "…")
_ENDS = (".", "!", "?", '"', "”", "’", "»", "…", "。", "！", "？", ":", "؟", "।", ")")

STOP_WORDS: dict[str, tuple[str, ...]] = {
    "de": ("der", "die", "das", "und", "ist", "nicht", "ein", "eine", "zu", "mit", "von", "in"),
    "en": ("the", "be", "to", "of", "and", "that", "have", "with"),
    "es": ("el", "la", "de", "que", "y", "en", "los", "se", "un", "una", "con", "para"),
    "fr": ("le", "la", "les", "de", "des", "et", "est", "que", "un", "une", "dans", "pour"),
    "it": ("il", "la", "di", "che", "e", "un", "una", "per", "con", "non", "sono", "in"),
    "nl": ("de", "het", "een", "en", "van", "is", "dat", "niet", "op", "met", "in", "te"),
    "pt": ("o", "a", "de", "que", "e", "do", "da", "em", "um", "uma", "para", "com"),
}


class TextMeasures(NamedTuple):
    """What a text is made of.

    Attributes:
        words: number of words; letters of scripts without blanks are words.
        mean_word_length: characters; 0 without words.
        is_unspaced: most words are letters of a script without blanks.
        symbol_ratio: `#` and ellipses per word.
        letter_words: share of words that have a letter.
        bullet_lines, ellipsis_lines, ended_lines: share of lines that start with a bullet, end
            in an ellipsis, end in a mark of punctuation.
        repeated_lines: share of lines that an earlier line equals.
    """

    words: int
    mean_word_length: float
    is_unspaced: bool
    symbol_ratio: float
    letter_words: float
    bullet_lines: float
    ellipsis_lines: float
    ended_lines: float
    repeated_lines: float


def list_words(text: str) -> list[str]:
    """Return the words of a text, in order; letters of scripts without blanks are words."""
    # The same words of a text that has no other letters, found a fifth faster.
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def measure_text(text: str) -> TextMeasures:
    """Compute the measures of a text; shares of an empty text are 0."""
    words = list_words(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    number, total = len(words), len(lines)
    symbols = text.count("#") + text.count("...") + text.count("…")
    repeats = sum(Counter(lines).values()) - len(set(lines))
    return TextMeasures(
        words=number,
        mean_word_length=_share(sum(map(len, words)), number),
        is_unspaced=_share(len(_UNSPACED_LETTER.findall(text)), number) > _MOST,
        symbol_ratio=_share(symbols, number),
        letter_words=_share(sum(any(map(str.isalpha, word)) for word in words), number),
        bullet_lines=_share(sum(line.startswith(_BULLETS) for line in lines), total),
        ellipsis_lines=_share(sum(line.endswith(_ELLIPSES) for line in lines), total),
        ended_lines=_share(sum(line.endswith(_ENDS) for line in lines), total),
        repeated_lines=_share(repeats, total),
    )


def count_stop_words(text: str, language: str) -> int | None:
    """Return how many different stop words of a language occur.

    None where the language has no list.
    """
    if language not in STOP_WORDS:
        return None
    words = {word.lower() for word in list_words(text)}
    return sum(word in words for word in STOP_WORDS[language])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
