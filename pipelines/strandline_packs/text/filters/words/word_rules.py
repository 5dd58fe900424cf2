"""Splits texts into words and sentences by built-in rules: fast, for all scripts, without models.

Only this module defines letters and their signs. Counts, filters, signatures, and language
detection use it, so all of them see the same words. The classes are Unicode's, through the library
`regex`: Python's own word class lacks vowel signs and combining accents. This module takes text,
returns strings, and does no I/O.

Two functions split words. `split_words` approximates linguistic tokenizers: punctuation marks are
words, `it's` is two words, and a number or a URL is one word. `list_words` follows everyday
counting: no punctuation marks, and `it's` and `well-known` are one word each.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import regex

# Scripts without blanks between words. A letter with its signs counts as a word. The line break
# class SA covers Thai, Lao, Khmer, Burmese, and similar scripts. Tibetan marks the ends of
# syllables, which count as words here.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}\u30fc\uff70\uff9e\uff9f"
# Python's white space includes four separators that Unicode's does not.
_BLANK = r"\s\x1c-\x1f"
LETTER = r"[\w\p{N}]"
_SPACED = rf"[[\w\p{{N}}]--[{UNSPACED}]]"
_SIGNS = r"[\p{M}\p{Cf}]*"
# In order: URL, number as in `1,000.5`, run of letters, ending as in `'s`, run of marks, mark.
_WORD = (
    r"https?://[^{blank}<>\"]+|\d+(?:[.,]\d+)+|{letter}+|(?<=[\w\p{{N}}])['’]{letter}+"
    r"|[-.=*~+<>|/\\]{{2,}}|[^\w\p{{N}}{blank}]{signs}"
)
_COUNTED = r"{letter}+(?:['’-]{letter}+)*"  # as in `it's` and `well-known`

# Most texts contain neither unspaced scripts nor numbers like ½ and ², and can use a faster
# pattern.
_FIND_OTHERS = regex.compile(rf"[{UNSPACED}\p{{No}}]")
_SPLIT = regex.compile(_WORD.format(letter=r"\w", blank=_BLANK, signs=_SIGNS))
_SPLIT_ALL = regex.compile(
    rf"[{UNSPACED}]{_SIGNS}|" + _WORD.format(letter=_SPACED, blank=_BLANK, signs=_SIGNS),
    regex.VERSION1,
)
_COUNT = regex.compile(_COUNTED.format(letter=r"\w"))
_COUNT_ASCII = re.compile(_COUNTED.format(letter=r"\w"), re.ASCII)
_COUNT_ALL = regex.compile(
    rf"[{UNSPACED}]{_SIGNS}|" + _COUNTED.format(letter=_SPACED), regex.VERSION1
)
_RUN = regex.compile(rf"{LETTER}+")
_HAS_LETTER = regex.compile(r"\p{Alphabetic}")
_HAS_LETTER_OR_NUMBER = regex.compile(r"[\p{Alphabetic}\p{N}]")
# Soft hyphens, direction marks, word joiners, and byte order marks. Zero-width joiners are kept,
# because they distinguish words of Persian and Hindi.
_INVISIBLE = regex.compile(r"[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BREAK = "\u200b"

_CLOSING = r"\"'”’»)\]」』"
# A full stop in Chinese and Japanese needs no following blank.
_END = regex.compile(
    rf"([\p{{Sentence_Terminal}}…؟۔।॥--[。！？｡．]]+)[{_CLOSING}]*\s+|[。！？｡．]+[{_CLOSING}]*\s*",
    regex.VERSION1,
)
_LAST_WORD = regex.compile(r"(?:\w\.)*\w+\Z")  # matches `e.g` before a full stop
_ABBREVIATIONS = frozenset(
    {"approx", "bzw", "ca", "cf", "co", "dr", "e.g", "fig", "i.e", "inc", "jr", "ltd", "mr", "mrs",
     "ms", "nr", "pp", "prof", "sr", "st", "u.a", "vgl", "vol", "vs", "z.b"}
)  # fmt: skip
_LOOK_BACK = 12  # maximum length of an abbreviation, in characters


def compose(text: str) -> str:
    """Return the normal form of a text for counting and comparing.

    Accents are composed with their letters (NFC), invisible characters are removed, and zero-width
    breaks become blanks.
    """
    if text.isascii():
        return text
    shown = _INVISIBLE.sub("", text).replace(_BREAK, " ")
    return unicodedata.normalize("NFC", shown)


def fold(text: str) -> str:
    """Return the normal form of a text for comparing without case."""
    # Case folding can decompose letters, so compose again.
    return text.lower() if text.isascii() else compose(compose(text).casefold())


def split_words(text: str) -> list[str]:
    """Return the words and marks of a text, in order and without blanks."""
    return (_SPLIT_ALL if _FIND_OTHERS.search(text) else _SPLIT).findall(text)


def list_words(text: str) -> list[str]:
    """Return the words of a text, in order; letters of scripts without blanks are words."""
    if text.isascii():  # Python's own word class is three times as fast
        return _COUNT_ASCII.findall(text)
    return (_COUNT_ALL if _FIND_OTHERS.search(text) else _COUNT).findall(text)


def list_runs(text: str) -> list[str]:
    """Return the runs of letters, signs and digits of a text, in order."""
    return _RUN.findall(text)


def has_letter(word: str) -> bool:
    """Return whether a word has a letter."""
    return _HAS_LETTER.search(word) is not None


def is_mark(word: str) -> bool:
    """Return whether a word has neither letter nor number."""
    return _HAS_LETTER_OR_NUMBER.search(word) is None


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the sentences of a text, without gaps.

    A full stop after an initial or an abbreviation, or before a small letter, does not end a
    sentence.
    """
    start = 0
    for found in _END.finditer(text):
        end = found.end()
        if end < len(text) and not (found[1] == "." and _goes_on(text, found.start(), end)):
            yield start, end
            start = end
    if text[start:].strip():
        yield start, len(text)


def _goes_on(text: str, stop: int, follows: int) -> bool:
    if text[follows].islower():
        return True
    word = _LAST_WORD.search(text, max(0, stop - _LOOK_BACK), stop)
    return word is not None and (
        (len(word[0]) == 1 and word[0].isupper()) or word[0].lower() in _ABBREVIATIONS
    )
