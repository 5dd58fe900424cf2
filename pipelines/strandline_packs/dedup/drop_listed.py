"""The stage `drop-listed`: drops rows whose key is in an existing list.

Decisions about the whole corpus, such as the choice among near-duplicates, are made once before the
run. Then each source can be processed and resumed independently.
"""

from __future__ import annotations

from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.columns import list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.dedup.key_lists import KEY, find_retained, list_key_files, read_key_list


class DropListed(RowFilter):
    """Drops rows whose key is in a Parquet file. The fingerprint covers the keys."""

    class Params(RowFilter.Params):
        """Configures the list, and the key columns of list and rows."""

        path: str = Field(
            min_length=1,
            description="Parquet file or fsspec URL with the keys to drop, such as the output of "
            "`cluster-duplicates` in another pipeline; or a pattern of several files, "
            "or a folder with a trailing slash.",
        )
        path_column: str = Field(default=KEY, description="Column of the file with the keys.")
        column: str = Field(default=KEY, description="Column of the rows with their key.")
        _digest: str = PrivateAttr(default="")

        @model_validator(mode="after")
        def _read(self) -> Self:
            try:
                self._digest = read_key_list(self.path, self.path_column).digest
            except UnreadableFileError as error:
                raise ValueError(str(error)) from error
            return self

        @property
        def digest(self) -> str:
            """Digest of the keys at planning time."""
            return self._digest

    scope = "list"
    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the keys."""
        return {"path": self.params.digest}

    def setup(self) -> None:
        """Load the keys.

        Raises:
            ChangedListError: the keys have changed since planning.
            UnreadableFileError: the list is missing.
        """
        if not list_key_files(self.params.path):
            # A missing file is an error only now: during planning, another pipeline may still have
            # to create the file.
            msg = f"{self.params.path}: the file does not exist"
            raise UnreadableFileError(msg)
        self._listed = read_key_list(self.params.path, self.params.path_column)
        if self._listed.digest != self.params.digest:
            msg = f"{self.params.path}: the list has changed during the run; run the pipeline again"
            raise ChangedListError(msg)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count listed rows.

        Raises:
            MissingColumnError: the key column is missing.
            TypeError: keys have an unsupported type.
        """
        keys = list_texts(table, self.params.column)
        listed = self._listed.find(keys)
        return JudgedRows(table, ["listed" if is_listed else None for is_listed in listed])

    def find_retained(self, table: pa.Table, row: int) -> str | None:
        """Return the key that the list names as retained for a row."""
        (key,) = list_texts(table.slice(row, 1), self.params.column)
        return find_retained(self.params.path, self.params.path_column, key)
