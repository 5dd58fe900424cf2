"""N-grams of benchmark texts, and which of them a document has.

Words are compared without case and marks. Pure but for reading the texts; codes are exact, so that
a document is judged the same in every process.
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
    """How much of a document is in benchmarks.

    Attributes:
        share: of its n-grams that are in one; 0 where it has none.
        benchmark: position of the one that has the first of them; None without any.
    """

    share: float
    benchmark: int | None


class NgramIndex:
    """The n-grams of benchmarks.

    Args:
        n: words of an n-gram.
        benchmarks: the texts of each; one with fewer words has no n-gram.
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
                    self._owners.setdefault(code, position)

    def __len__(self) -> int:
        return len(self._owners)

    def measure(self, text: str) -> Overlap:
        """Measure how much of a text is in a benchmark."""
        words = normalise_words(text)
        total = len(words) - self._n + 1
        if total <= 0:
            return Overlap(0.0, None)
        ids = np.array([self._numbers.get(word, -1) for word in words], dtype=np.int32)
        owners = [self._owners[code] for code in self._list_codes(ids) if code in self._owners]
        return Overlap(len(owners) / total, owners[0] if owners else None)

    def _list_codes(self, ids: npt.NDArray[np.int32]) -> Iterator[bytes]:
        """Yield a code for each n-gram of words that benchmarks have."""
        n = self._n
        unknown = np.concatenate(([0], np.cumsum(ids < 0)))
        for at in np.flatnonzero(unknown[n:] == unknown[:-n]).tolist() if len(ids) >= n else ():
            yield ids[at : at + n].tobytes()


def normalise_words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return [word for word in split_words(fold(text)) if not is_mark(word)]


def read_texts(path: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the texts of a benchmark: of each row, its columns in their order.

    Args:
        path: JSON Lines, which may be compressed, Parquet, or one text.
        columns: with text, of those that there are.

    Raises:
        UnreadableFileError: it can't be read, or none of the columns is there.
    """
    try:
        if path.endswith(".parquet"):
            with open_binary(path) as file:
                yield from _join_columns(path, open_parquet(file).read(), columns)
            return
        with open_decompressed(path) as file:
            content = file.read().decode("utf-8")
        if not any(ending in path for ending in _JSON_LINES):
            yield content
            return
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        yield from _join_columns(path, pa.Table.from_pylist(rows), columns)
    except (*READ_ERRORS, ValueError, ImportError, TypeError) as error:
        raise explain_error(path, error) from error


def _join_columns(path: str, table: pa.Table, columns: Sequence[str]) -> Iterator[str]:
    found = [name for name in columns if name in table.column_names]
    if not found and table.num_rows:
        msg = f"{path}: there is none of the columns {', '.join(columns)}"
        raise UnreadableFileError(msg)
    for values in zip(*(list_strings(table, name) for name in found), strict=True):
        yield "\n".join(values)
