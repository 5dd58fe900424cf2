"""How likely a text is to a language model of n-grams: its perplexity, as CCNet counts it.

Pure: what scores a line and what splits it into tokens come in as arguments.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Protocol

_DIGIT = re.compile(r"\d")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
# Beyond that a float ends, and no text is.
_MOST_DIGITS = 300.0
# Punctuation of other scripts and of typesetters, as CCNet's models were trained without it.
_ASCII = {
    '"': "„“”«»「」《》",
    "'": "´’",
    ",": "，、",
    "-": "–━►",
    ".": "。",
    ":": "：∶",
    ";": "；",
    "?": "？",
    "!": "！",
    "(": "（",
    ")": "）",
    "<": "〈",
    ">": "〉",
    "[": "【",
    "]": "】",
    "%": "％",
    "~": "～",
    ". ": "．",
    "...": "…",
    " - ": "—",
}
_PUNCTUATION = str.maketrans({mark: plain for plain, marks in _ASCII.items() for mark in marks})

Tokenise = Callable[[str], Iterable[str]]


class LineScorer(Protocol):
    """A language model, as far as it is asked: KenLM's have this method."""

    def score(self, sentence: str) -> float:
        """Return log10 of the probability of tokens between blanks, and of the line's end."""


def measure_perplexity(text: str, scorer: LineScorer, tokenise: Tokenise) -> float | None:
    """Return the perplexity of a text; None where it has no token.

    Each line is scored by itself, with the beginning and the end of a sentence. A line has as many
    tokens as are between its blanks, and one for its end; an empty line has that one.
    """
    lines = [" ".join(tokenise(line)) for line in text.split("\n")]
    if not any(line.strip() for line in lines):
        return None
    length = sum(len(line.split()) + 1 for line in lines)
    exponent = -sum(scorer.score(line) for line in lines) / length
    return float(10.0 ** min(exponent, _MOST_DIGITS))


def normalise_as_ccnet(text: str) -> str:
    """Return a text as CCNet's models know it: one line of small letters without accents.

    Digits become 0, punctuation becomes ASCII, and control characters go, line ends among them.
    """
    letters = unicodedata.normalize("NFD", text.strip().lower())
    plain = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
    return _CONTROL.sub("", _DIGIT.sub("0", plain).translate(_PUNCTUATION))
