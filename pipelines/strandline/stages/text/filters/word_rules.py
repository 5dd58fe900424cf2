"""Words and sentences by rules of our own: fast, for all scripts, and without any model.

Words are roughly what linguists' tokenisers give: marks of punctuation are words by themselves,
`it's` is two, a number or a URL is one. Pure: text in, strings out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

# Scripts that are written without blanks: a letter counts as a word.
_UNSPACED = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
# Where vowels and accents stand that follow a letter; for Python they are no part of a word.
_BLOCKS = (range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xFB1E, 0xFE30))
_WORD = r"https?://[^\s<>\"]+|\d+(?:[.,]\d+)+|{letter}+|(?<=\w)['’]{letter}+|[-.=*~+<>|/\\]{{2,}}|{mark}"


class _WordPatterns(NamedTuple):
    """What finds words.

    Attributes:
        others: what only texts of other scripts have.
        plain: of texts without it, which are most; it is three times as fast.
        full: of texts with it.
    """

    others: re.Pattern[str]
    plain: re.Pattern[str]
    full: re.Pattern[str]


@cache
def _compile_patterns() -> _WordPatterns:
    """Compile the patterns, for which thirty thousand characters are looked at."""
    marks = "".join(
        chr(code) for code in chain(*_BLOCKS) if unicodedata.category(chr(code)).startswith("M")
    )
    full = _WORD.format(letter=rf"(?:[^\W{_UNSPACED}]|[{marks}])", mark=rf"[^\w\s{marks}]")
    return _WordPatterns(
        re.compile(f"[{_UNSPACED}{marks}]"),
        re.compile(_WORD.format(letter=r"\w", mark=r"[^\w\s]")),
        re.compile(rf"[{_UNSPACED}]|{full}"),
    )


_CLOSING = r"\"'”’»)\]」』"
_END = re.compile(rf"([.!?…‼⁇⁈⁉؟۔।॥]+)[{_CLOSING}]*\s+|[。！？｡．]+[{_CLOSING}]*\s*")
_LAST_WORD = re.compile(r"(?:\w\.)*\w+\Z")
_ABBREVIATIONS = frozenset(
    {"approx", "bzw", "ca", "cf", "co", "dr", "e.g", "fig", "i.e", "inc", "jr", "ltd", "mr", "mrs",
     "ms", "nr", "pp", "prof", "sr", "st", "u.a", "vgl", "vol", "vs", "z.b"}
)  # fmt: skip
_LOOK_BACK = 12


def split_words(text: str) -> list[str]:
    """Return the words and marks of a text, in order; none of them has a blank."""
    others, plain, full = _compile_patterns()
    return (full if others.search(text) else plain).findall(text)


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
