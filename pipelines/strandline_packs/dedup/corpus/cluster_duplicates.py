"""The stage `cluster-duplicates`: turns the links of all partitions into a list of keys to drop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.file_references import list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.clusters import DROPPED, LINKS, list_dropped
from strandline_packs.dedup.corpus.pass_files import (
    cut_rows,
    digest_kept,
    read_kept,
    read_portions,
)
from strandline_packs.dedup.corpus.row_buckets import columns_of
from strandline_packs.dedup.key_lists import STAYS


class ClusterDuplicates(Stage):
    """Joins links into clusters, and lists all but one row of each cluster for `drop-listed`.

    Rows that an earlier run retained stay by default. In a cluster of new rows only, the first key
    stays. The task must name all link files, so the source is `files` with `buckets: 1`.
    """

    scope = "partition"
    mixes_rows = True

    class Params(Stage.Params):
        """Configures the maximum size of a task, and the rows that earlier runs retained."""

        max_rows: int = Field(
            default=1_000_000, ge=1, description="Maximum number of rows of a task."
        )
        kept_rows: str | None = Field(
            default=None,
            min_length=1,
            description="Folder with a trailing slash, or a pattern of files, with the rows that "
            "`list-kept` of another pipeline listed in the previous run; rows kept "
            "then are kept again. Without files, there are no such rows.",
        )
        kept_rows_stay: bool = Field(
            default=True,
            description="Whether previously kept rows are kept. `false`: the first key of every "
            "cluster is kept, as in a run over all data, and previously kept rows that "
            "are now dropped are counted.",
        )
        _digest: str = PrivateAttr(default="")

        @model_validator(mode="after")
        def _read(self) -> Self:
            try:
                self._digest = digest_kept(self.kept_rows) if self.kept_rows else ""
            except UnreadableFileError as error:
                raise ValueError(str(error)) from error
            return self

        @property
        def digest(self) -> str:
            """Digest of the retained rows at planning time."""
            return self._digest

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"kept_rows", "kept_rows_stay"})

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(DROPPED)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the retained rows."""
        return {"keptRows": self.params.digest} if self._is_decided_by_kept else {}

    def setup(self) -> None:
        """Check that the rows that earlier runs retained are unchanged.

        Raises:
            ChangedListError: the rows have changed since planning.
            UnreadableFileError: the rows can't be read.
        """
        path = self.params.kept_rows
        if path and self._is_decided_by_kept and digest_kept(path) != self.params.digest:
            msg = f"{path}: the index has changed during the run; run the pipeline again"
            raise ChangedListError(msg)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield the list in tables of at most `maxRows` rows.

        Without duplicates, yield one empty table.

        Raises:
            UnreadableFileError: a file can't be read.
            MissingColumnError: a file has no links.
        """
        files, path = list_references(task), self.params.kept_rows
        found = list_dropped(
            lambda: (each for file in files for each in read_portions(file, LINKS.names)),
            read_kept(path) if path else (),
            None if self.params.kept_rows_stay else self._note_former,
        )
        for table in cut_rows(found, DROPPED, self.params.max_rows):
            yield task.replace(table)

    def find_retained(self, table: pa.Table, row: int) -> str | None:
        """Return the key that stays instead of a row of the list."""
        return table[STAYS][row].as_py() if STAYS in table.column_names else None

    @property
    def _is_decided_by_kept(self) -> bool:
        return self.params.kept_rows is not None and self.params.kept_rows_stay

    def _note_former(self, number: int) -> None:
        if number:
            self.count("rows that stayed before and go", number)
