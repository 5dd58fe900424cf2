"""The stage `drop-listed`: rows with a key that is in a list from before the run.

What needs a view of the whole corpus, such as near-duplicates, is decided once, before the run;
then each source can be worked on, and resumed, by itself.
"""

from __future__ import annotations

from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.columns import list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.dedup.key_lists import KEY, list_key_files, read_key_list


class DropListed(RowFilter):
    """Drops the rows whose key is in a Parquet file; the keys in it are in the fingerprint."""

    class Params(RowFilter.Params):
        """Which list, and which key."""

        path: str = Field(
            min_length=1,
            description="Parquet file or fsspec URL with the keys to be dropped, such as "
            "`cluster-duplicates` of another pipeline makes; or a pattern of several files, or a "
            "folder with a slash at its end.",
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
            """Of the keys that were in the file when the pipeline was planned."""
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
            ChangedListError: they are others than those the run was planned with.
            UnreadableFileError: there is no list.
        """
        if not list_key_files(self.params.path):
            # As long as nothing runs that is no mistake: another pipeline may be about to make it.
            msg = f"{self.params.path}: there is no file of this name"
            raise UnreadableFileError(msg)
        self._listed = read_key_list(self.params.path, self.params.path_column)
        if self._listed.digest != self.params.digest:
            msg = f"{self.params.path}: the list was changed under the run; run it again"
            raise ChangedListError(msg)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows that are listed.

        Raises:
            MissingColumnError: the rows have no such key.
            TypeError: their keys can't be spelled.
        """
        keys = list_texts(table, self.params.column)
        listed = self._listed.find(keys)
        return JudgedRows(table, ["listed" if is_listed else None for is_listed in listed])
