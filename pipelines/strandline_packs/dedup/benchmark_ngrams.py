"""Indexes the n-grams of benchmark texts, and measures their overlap with documents.

Comparison ignores case and punctuation. Only `read_texts` does I/O. N-gram codes are exact, not
hashed, so every process judges a document the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.data.files.opening import (
    READ_ERRORS,
    UnreadableFileError,
    explain_error,
    open_binary,
    open_decompressed,
)
from strandline.data.tables.columns import list_strings
from strandline_packs.tables.contents.row_groups import open_parquet
from strandline_packs.text.filters.words.word_rules import fold, is_mark, split_words

_JSON_LINES = (".jsonl", ".ndjson")


class Overlap(NamedTuple):
    """Overlap of a document with benchmarks.

    Attributes:
        share: share of the document's n-grams that a benchmark contains; 0 if the document has no
            n-grams.
        benchmark: index of the benchmark that owns the first shared n-gram, or None if there is no
            overlap.
    """

    share: float
    benchmark: int | None


class NgramIndex:
    """Index of the n-grams in benchmark texts.

    Args:
        n: number of words in an n-gram.
        benchmarks: the texts of each benchmark. A text with fewer than `n` words has no n-gram.
    """

    def __init__(self, n: int, benchmarks: Iterable[Iterable[str]]) -> None:
        self._n = n
        self._numbers: dict[str, int] = {}
        self._owners: dict[bytes, int] = {}
        for position, texts in enumerate(benchmarks):
            for text in texts:
                words = normalise_words(text)
                ids = [self._numbers.setdefault(word, len(self._numbers)) for word in words]
                for code in self._list_codes(np.array(ids, dtype=np.int32)):
                    # If several benchmarks contain an n-gram, the first one owns the n-gram.
                    self._owners.setdefault(code, position)

    def __len__(self) -> int:
        return len(self._owners)

    def measure(self, text: str) -> Overlap:
        """Measure how much of a text is in a benchmark."""
        words = normalise_words(text)
        total = len(words) - self._n + 1
        if total <= 0:
            return Overlap(0.0, None)
        # Words that no benchmark contains get the id -1; n-grams with -1 are skipped.
        ids = np.array([self._numbers.get(word, -1) for word in words], dtype=np.int32)
        owners = [self._owners[code] for code in self._list_codes(ids) if code in self._owners]
        return Overlap(len(owners) / total, owners[0] if owners else None)

    def _list_codes(self, ids: npt.NDArray[np.int32]) -> Iterator[bytes]:
        """Yield a code for each n-gram that consists of benchmark words only."""
        n = self._n
        # Prefix sums: an n-gram contains no unknown word if the sums at both ends are equal.
        unknown = np.concatenate(([0], np.cumsum(ids < 0)))
        for at in np.flatnonzero(unknown[n:] == unknown[:-n]).tolist() if len(ids) >= n else ():
            yield ids[at : at + n].tobytes()


def normalise_words(text: str) -> list[str]:
    """Return the words of a text in their normal form for comparison."""
    return [word for word in split_words(fold(text)) if not is_mark(word)]


def read_texts(path: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the texts of a benchmark: the given columns of each row, in order.

    Args:
        path: a file of JSON Lines (compressed or not) or Parquet, or a plain text file, which
            counts as one text.
        columns: text columns; missing columns are skipped.

    Raises:
        UnreadableFileError: the file can't be read, or has none of the columns.
    """
    try:
        if path.endswith(".parquet"):
            with open_binary(path) as file:
                yield from _join_columns(path, open_parquet(file).read(), columns)
            return
        with open_decompressed(path) as file:
            content = file.read().decode("utf-8")
        # Compressed files have a second suffix, as in `tests.jsonl.gz`.
        if not any(ending in path for ending in _JSON_LINES):
            yield content
            return
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        yield from _join_columns(path, pa.Table.from_pylist(rows), columns)
    except (*READ_ERRORS, ValueError, ImportError, TypeError) as error:
        raise explain_error(path, error) from error


def _join_columns(path: str, table: pa.Table, columns: Sequence[str]) -> Iterator[str]:
    found = [name for name in columns if name in table.column_names]
    # JSON Lines without rows produce a table without columns, which is not an error.
    if not found and table.num_rows:
        msg = f"{path}: the file has none of the columns {', '.join(columns)}"
        raise UnreadableFileError(msg)
    for values in zip(*(list_strings(table, name) for name in found), strict=True):
        yield "\n".join(values)
