"""The stage `drop-seen`: drops rows that a Bloom filter of an earlier run contains.

With a filter of a few bits per row, a new crawl can be compared with the whole existing corpus.
Sources are judged independently, so a killed and resumed run keeps the same rows.
"""

from __future__ import annotations

from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import (
    ChangedListError,
    UnreadableFileError,
    digest_content,
    explain_error,
)
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.dedup.seen.filter_file import BloomFile, read_filter
from strandline_packs.dedup.seen.seen_rows import digest_rows

_ABSENT = "absent"


class DropSeen(RowFilter):
    """Drops rows that were added to a Bloom filter, and a few false positives."""

    class Params(RowFilter.Params):
        """Configures the filters, and the columns to look up in them."""

        paths: tuple[str, ...] = Field(
            min_length=1,
            description="Filters written by `fill-bloom`, as paths or URLs, such as `{pipeline: "
            "NAME, artifact: fill-bloom.seen.bloom}`. A row that any of them contains "
            "is dropped.",
        )
        columns: tuple[str, ...] = Field(
            default=("text",),
            min_length=1,
            description="Columns that are compared, as many as the filters were made of. "
            "The filters determine how they are normalised.",
        )
        _digests: tuple[str, ...] = PrivateAttr(default=())

        @model_validator(mode="after")
        def _read(self) -> Self:
            self._digests = tuple(map(_digest_filter, self.paths))
            return self

        @property
        def digests(self) -> tuple[str, ...]:
            """Digests of the filters at planning time."""
            return self._digests

    scope = "list"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the filters."""
        return {f"paths[{at}]": digest for at, digest in enumerate(self.params.digests)}

    def setup(self) -> None:
        """Load the filters.

        Raises:
            ChangedListError: a filter has changed since planning.
            UnreadableFileError: a filter is missing, damaged, or has another number of columns.
        """
        planned = zip(self.params.paths, self.params.digests, strict=True)
        self._filters = [self._load(path, digest) for path, digest in planned]

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows that a filter contains.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has no text.
        """
        is_kept = [True] * table.num_rows
        for each in self._filters:
            digests, is_filled = digest_rows(table, self.params.columns, each.head.normalise)
            is_found = iter(each.find(digests))
            for at, is_some in enumerate(is_filled):
                if is_some and next(is_found):
                    is_kept[at] = False
        return JudgedRows(table, [None if kept else "seen" for kept in is_kept])

    def _load(self, path: str, digest: str) -> BloomFile:
        found = read_filter(path)
        if found.digest != digest:
            msg = f"{path}: the filter has changed during the run; run the pipeline again"
            raise ChangedListError(msg)
        names = found.head.columns
        if len(names) != len(self.params.columns):
            msg = f"{path}: the filter was made of {', '.join(names)}; name as many columns"
            raise UnreadableFileError(msg)
        return found


def _digest_filter(path: str) -> str:
    """Return the digest of a file, or a constant if another pipeline may still create the file."""
    try:
        return digest_content(path)
    except FileNotFoundError:
        return _ABSENT
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(str(explain_error(path, error))) from error
