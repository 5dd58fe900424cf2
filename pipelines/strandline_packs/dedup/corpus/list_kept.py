"""The stage `list-kept`: subtracts the drop list from the buckets of all rows.

The drop list is one of the source's files, not a parameter. A new list is therefore a new version
of that source, and the previous index stays valid until the new one replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.data.tables.columns import MissingColumnError, list_strings
from strandline.data.tables.file_references import FileReference, list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.pass_files import KEPT, cut_rows, list_columns, read_portions
from strandline_packs.dedup.corpus.row_buckets import BUCKETS, columns_of, read_digests
from strandline_packs.dedup.key_lists import KEY, STAYS, KeyList

_COLUMNS = ["key", "id", "source"]


class ListKept(Stage):
    """Lists the retained rows in an index of ids, for `cluster-duplicates` of the next run.

    The task must name all bucket files and the list, so the source is `files` with `buckets: 1`.
    """

    class Params(Stage.Params):
        """Configures the maximum size of a task."""

        max_rows: int = Field(
            default=1_000_000, ge=1, description="Maximum number of rows of a task."
        )

    scope = "partition"
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(KEPT)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield the index in tables of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file can't be read.
            MissingColumnError: a file has no buckets, or no file is a list.
        """
        files = list_references(task)
        # Recognize the list by a column: the pipeline may use any file name.
        lists = [file for file in files if STAYS in list_columns(file)]
        if not lists:
            msg = (
                "the list of dropped rows is missing; add its file to `paths`, even if it is empty"
            )
            raise MissingColumnError(msg)
        dropped = _read_list(lists)
        rows = (_list_rows(file, dropped) for file in files if file not in lists)
        for table in cut_rows(rows, KEPT, self.params.max_rows):
            self.count("rows that stay", table.num_rows)
            yield task.replace(table)


def _read_list(files: list[FileReference]) -> KeyList:
    portions = (portion for file in files for portion in read_portions(file, [KEY]))
    return KeyList.from_keys(key for portion in portions for key in list_strings(portion, KEY))


def _list_rows(file: FileReference, dropped: KeyList) -> pa.Table:
    """Return the retained rows of a file, each once. All buckets of a row are in the same file."""
    portions = read_portions(file, _COLUMNS)
    # The empty table provides the schema for a file without rows.
    table = pa.concat_tables([BUCKETS.empty_table().select(_COLUMNS), *portions])
    table = table.filter(pc.is_null(table["source"]))  # other rows only mark keys
    _, positions = np.unique(read_digests(table, "id"), return_index=True)
    table = table.take(pa.array(positions))
    is_listed = dropped.find(table["key"].to_pylist())
    return table.select(KEPT.names).filter(pc.invert(pa.array(is_listed, pa.bool_())))
