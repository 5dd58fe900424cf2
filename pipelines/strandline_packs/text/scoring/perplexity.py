"""Computes the perplexity of a text under an n-gram language model, as CCNet does.

This module does no I/O: the model and the tokenizer are arguments.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Protocol

_DIGIT = re.compile(r"\d")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
# Floats end beyond this exponent, which no real text reaches.
_MOST_DIGITS = 300.0
# CCNet trained its models without typographic and non-ASCII punctuation.
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
    """The part of a language model that this module uses. KenLM models have this method."""

    def score(self, sentence: str) -> float:
        """Return log10 of the probability of blank-separated tokens and the line's end."""


def measure_perplexity(text: str, scorer: LineScorer, tokenise: Tokenise) -> float | None:
    """Return the perplexity of a text, or None for a text without tokens.

    Lines are scored separately, as sentences with a start and an end. The end of a line counts as a
    token, so an empty line has one token.
    """
    lines = [" ".join(tokenise(line)) for line in text.split("\n")]
    if not any(line.strip() for line in lines):
        return None
    length = sum(len(line.split()) + 1 for line in lines)
    exponent = -sum(scorer.score(line) for line in lines) / length
    return float(10.0 ** min(exponent, _MOST_DIGITS))


def normalise_as_ccnet(text: str) -> str:
    """Normalize a text like CCNet's training data: one line, lower case, without accents.

    Digits become 0, punctuation becomes ASCII, and control characters, including line ends, are
    removed.
    """
    letters = unicodedata.normalize("NFD", text.strip().lower())
    plain = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
    return _CONTROL.sub("", _DIGIT.sub("0", plain).translate(_PUNCTUATION))
