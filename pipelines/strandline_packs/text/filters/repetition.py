"""Measures repetition in a text: the shares of repeated lines, paragraphs, and n-grams.

The measures are those of the Gopher corpus. This module takes strings, returns numbers, and does no
I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_Codes = npt.NDArray[np.int64]


class Repeats(NamedTuple):
    """Number of items that equal an earlier item, and their number of characters."""

    items: int
    characters: int


def count_repeats(items: Sequence[str]) -> Repeats:
    """Count the items that equal an earlier one."""
    seen: set[str] = set()
    # `add` returns None, so the first occurrence is skipped.
    again = [item for item in items if item in seen or seen.add(item)]  # type: ignore[func-returns-value]
    return Repeats(len(again), sum(map(len, again)))


def name_top(n: int) -> str:
    """Return the measure name for the most frequent n-gram, counting every occurrence."""
    return f"top_{n}_gram"


def name_repeated(n: int) -> str:
    """Return the measure name for n-grams that occurred before."""
    return f"duplicated_{n}_n_grams"


def measure_ngrams(
    words: Sequence[str],
    size: int,
    top: Iterable[int],
    repeated: Iterable[int],
    *,
    compatible: bool = False,
) -> Iterator[tuple[str, float]]:
    """Yield the shares of a text's characters in repeated n-grams, by measure name.

    Args:
        words: words of the text, in order.
        size: length of the text in characters.
        top: values of n for which the most frequent n-gram is measured.
        repeated: values of n for which repeated n-grams are measured.
        compatible: count as datatrove does. The most frequent n-gram may occur only once, which
            drops short texts. N-grams are compared after joining, so `ab c` equals `a bc`.
    """
    ngrams = Ngrams(words)
    for n in top:
        most = ngrams.measure_top(n) or (measure_first(words, n) if compatible else 0)
        yield name_top(n), most / size
    for n in repeated:
        again = measure_joined(words, n) if compatible else ngrams.measure_repeated(n)
        yield name_repeated(n), again / size


class Ngrams:
    """N-grams of words that occur more than once.

    An n-gram can repeat only if its first n-1 words repeat, so each larger n has fewer candidates.
    The code of an n-gram is its rank among the candidates, so different n-grams never share a code.
    """

    def __init__(self, words: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        ids = [numbers.setdefault(word, len(numbers)) for word in words]
        self._ids = np.array(ids, dtype=np.int64)
        self._ends = list(accumulate(map(len, words), initial=0))
        self._found: dict[int, tuple[_Codes, _Codes]] = {}
        self._known = len(numbers)

    def measure_top(self, n: int) -> int:
        """Return the total characters of all occurrences of the most frequent n-gram.

        The words of an n-gram are joined by blanks. On a tie, the first n-gram counts. Return 0 if
        no n-gram repeats.
        """
        positions, codes = self._find(n)
        if not positions.size:
            return 0
        _, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
        most = counts.max()
        at = int(positions[firsts[counts == most].min()])
        return (self._ends[at + n] - self._ends[at] + n - 1) * int(most)

    def measure_repeated(self, n: int) -> int:
        """Return the characters of n-grams that occurred before, without blanks.

        Counted n-grams do not overlap.
        """
        positions, codes = self._find(n)
        seen: set[int] = set()
        size = free = 0
        for at, code in zip(positions.tolist(), codes.tolist(), strict=True):
            if at < free:
                continue
            if code in seen:
                size += self._ends[at + n] - self._ends[at]
                free = at + n
            else:
                seen.add(code)
        return size

    def _find(self, n: int) -> tuple[_Codes, _Codes]:
        """Return the positions of n-grams that occur at least twice, in order, and their codes."""
        if n not in self._found:
            self._found[n] = self._narrow(n)
        return self._found[n]

    def _narrow(self, n: int) -> tuple[_Codes, _Codes]:
        if n == 1:
            positions, codes = np.arange(len(self._ids)), self._ids
        else:
            positions, codes = self._find(n - 1)
            fits = positions + n <= len(self._ids)
            positions, codes = positions[fits], codes[fits]
            # The new code identifies the pair of old code and next word, because ids are below
            # `_known`.
            codes = codes * self._known + self._ids[positions + n - 1]
        if not positions.size:
            return positions, codes
        _, ranks, counts = np.unique(codes, return_inverse=True, return_counts=True)
        is_again = counts[ranks] > 1
        return positions[is_again], ranks[is_again]


def measure_first(words: Sequence[str], n: int) -> int:
    """Return the characters of the first n-gram, with its words joined by blanks."""
    return sum(map(len, words[:n])) + n - 1 if len(words) >= n else 0


def measure_joined(words: Sequence[str], n: int) -> int:
    """Return the result of `Ngrams.measure_repeated` for joined n-grams."""
    text = "".join(words)
    ends = list(accumulate(map(len, words), initial=0))
    seen: set[str] = set()
    size = at = 0
    while at + n < len(ends):
        ngram = text[ends[at] : ends[at + n]]
        if ngram in seen:
            size += len(ngram)
            at += n
        else:
            seen.add(ngram)
            at += 1
    return size
