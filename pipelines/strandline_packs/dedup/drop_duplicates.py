"""The stage `drop-duplicates`: drops equal rows within a task.

The stage does not compare sources: otherwise a run could not resume source by source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_comparable, list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.dedup.key_lists import KEY


class ComparedRows(StrEnum):
    """The rows to compare with each other."""

    TASK = "task"


class Normalisation(StrEnum):
    """Differences that a comparison of texts ignores."""

    NONE = "none"
    WHITESPACE = "whitespace"
    CASE = "case"


# The reason names the scope, because other tasks may have the same row.
DUPLICATE = "duplicate in its task"


class DropDuplicates(RowFilter):
    """Keeps the first of equal rows of a task.

    A task is the unit that a reader emits, such as 10,000 lines of a file. Equal rows in other
    tasks are kept; `digest-rows` finds the duplicates of a whole corpus.
    """

    class Params(RowFilter.Params):
        """Configures the columns to compare, and how texts are normalized before."""

        within: ComparedRows = Field(
            description="Which rows are compared: `task` compares the rows of one task of the "
            "reader. For a whole corpus, use the passes that start with `digest-rows`.",
        )
        columns: tuple[str, ...] = Field(
            default=("text",),
            min_length=1,
            description="Columns that are compared: texts, numbers, dates, truth values, or bytes.",
        )
        normalise: Normalisation = Field(
            default=Normalisation.WHITESPACE,
            description="`none`: bytes must be equal. `whitespace`: runs of white space count as "
            "one blank. `case`: also ignores upper and lower case.",
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count all but the first of equal rows."""
        seen: set[bytes] = set()
        reasons = []
        for digest in self._digest_rows(table):
            reasons.append(DUPLICATE if digest in seen else None)
            seen.add(digest)
        return JudgedRows(table, reasons)

    def find_retained(self, table: pa.Table, row: int) -> str | None:
        """Return the key of the first equal row of the task."""
        digests = list(self._digest_rows(table))
        first = digests.index(digests[row])
        has_key = first != row and KEY in table.column_names
        return list_texts(table.slice(first, 1), KEY)[0] if has_key else None

    def _digest_rows(self, table: pa.Table) -> Iterator[bytes]:
        columns = [list_comparable(table, name) for name in self.params.columns]
        for values in zip(*columns, strict=True):
            yield digest_values(values, self.params.normalise)


def digest_values(values: Iterable[str], normalise: Normalisation) -> bytes:
    """Return the 16-byte digest of a row's texts. Equal rows have equal digests."""
    state = blake2b(digest_size=16)
    for value in values:
        text = _normalise(value, normalise).encode()
        # Prefix the length: otherwise ("ab", "c") and ("a", "bc") would have the same digest.
        state.update(len(text).to_bytes(8, "big") + text)
    return state.digest()


def _normalise(text: str, normalise: Normalisation) -> str:
    if normalise is Normalisation.NONE:
        return text
    spaced = " ".join(text.split())
    return spaced.casefold() if normalise is Normalisation.CASE else spaced
