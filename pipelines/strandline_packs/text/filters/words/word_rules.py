"""Words and sentences by rules of our own: fast, for all scripts, and without any model.

What a letter is, and what belongs to it, is said here alone: counts, filters, signatures and
languages ask this module, so that none of them sees other words than the next. The classes are
Unicode's, by the library `regex`; Python's own words have neither vowel signs nor accents that
stand by themselves. Pure: text in, strings out.

There are two ways to cut. `split_words` gives roughly what linguists' tokenisers give: marks of
punctuation are words by themselves, `it's` is two, a number or a URL is one. `list_words` gives
what a person would count: no marks, and `it's` and `well-known` are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import regex

# Scripts that are written without blanks: a letter counts as a word, with the signs upon it. Line
# breaks by dictionary (SA) are those of Thai, Lao, Khmer, Burmese and what is written like them;
# Tibetan has a mark between syllables, which are its words here.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}\u30fc\uff70\uff9e\uff9f"
# Python's blanks, of which Unicode does not count the four separators.
_BLANK = r"\s\x1c-\x1f"
LETTER = r"[\w\p{N}]"
_SPACED = rf"[[\w\p{{N}}]--[{UNSPACED}]]"
_SIGNS = r"[\p{M}\p{Cf}]*"
_WORD = (
    r"https?://[^{blank}<>\"]+|\d+(?:[.,]\d+)+|{letter}+|(?<=[\w\p{{N}}])['’]{letter}+"
    r"|[-.=*~+<>|/\\]{{2,}}|[^\w\p{{N}}{blank}]{signs}"
)
_COUNTED = r"{letter}+(?:['’-]{letter}+)*"

# Texts without such letters, and without numbers such as ½ and ², are most, and faster to cut.
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
# Hyphens that are not shown, directions of writing, joiners of words, marks of byte order; not the
# joiners of letters, which words of Persian and Hindi are told apart by.
_INVISIBLE = regex.compile(r"[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_BREAK = "\u200b"

_CLOSING = r"\"'”’»)\]」』"
# A full stop of Chinese and Japanese needs no blank behind it.
_END = regex.compile(
    rf"([\p{{Sentence_Terminal}}…؟۔।॥--[。！？｡．]]+)[{_CLOSING}]*\s+|[。！？｡．]+[{_CLOSING}]*\s*",
    regex.VERSION1,
)
_LAST_WORD = regex.compile(r"(?:\w\.)*\w+\Z")
_ABBREVIATIONS = frozenset(
    {"approx", "bzw", "ca", "cf", "co", "dr", "e.g", "fig", "i.e", "inc", "jr", "ltd", "mr", "mrs",
     "ms", "nr", "pp", "prof", "sr", "st", "u.a", "vgl", "vol", "vs", "z.b"}
)  # fmt: skip
_LOOK_BACK = 12


def compose(text: str) -> str:
    """Return a text as it is counted and compared: the same for all ways to write its letters.

    An accent and its letter are one character (NFC), what nobody sees is not there, and a break
    without width is a blank.
    """
    if text.isascii():
        return text
    shown = _INVISIBLE.sub("", text).replace(_BREAK, " ")
    return unicodedata.normalize("NFC", shown)


def fold(text: str) -> str:
    """Return a text as it is compared where case does not count."""
    return text.lower() if text.isascii() else compose(compose(text).casefold())


def split_words(text: str) -> list[str]:
    """Return the words and marks of a text, in order; none of them has a blank."""
    return (_SPLIT_ALL if _FIND_OTHERS.search(text) else _SPLIT).findall(text)


def list_words(text: str) -> list[str]:
    """Return the words of a text, in order; letters of scripts without blanks are words."""
    if text.isascii():  # Python's own is three times as fast
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
    """Yield where the sentences of a text begin and end, one after the other without a gap.

    A full stop behind an initial or an abbreviation, or before a small letter, ends none.
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
