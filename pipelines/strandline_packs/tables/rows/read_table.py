"""The stage `read-table`: reads the rows of a table's data files, at a version of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError, find_column
from strandline.data.tables.formats.registry import TableSnapshot, open_snapshot
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

_KEY = "key"


class ReadTable(Stage):
    """Reads data files listed by `table-files`, without deleted rows, in the table's schema."""

    class Params(Stage.Params):
        """Configures the columns to read, and the size of tasks."""

        columns: tuple[str, ...] | None = Field(
            default=None,
            min_length=1,
            description="Columns to read; all columns when unset. `key` is the table's own column, "
            "or made of the data file and the row number.",
        )
        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")

    params: Params
    _opened: tuple[str, int] | None = None
    _snapshot: TableSnapshot | None = None

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("table", "snapshot", "file")

    def change_columns(self, columns: Columns) -> Columns:
        chosen = self.params.columns
        return super().change_columns(columns) if chosen is None else Columns(chosen)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file or the table's version is no longer readable.
            MissingColumnError: the table lacks a requested column.
        """
        columns = (find_column(task.table, name).to_pylist() for name in self.list_needed_columns())
        for table, number, file in zip(*columns, strict=True):
            for rows in self._read(table, number, file):
                yield task.replace(rows)

    def _read(self, table: str, number: int, file: str) -> Iterator[pa.Table]:
        try:
            snapshot = self._open(table, number)
            names, row = self._choose(snapshot.schema), 0
            for rows in snapshot.read(file, names, self.params.max_rows):
                yield self._add_key(rows, file, row)
                row += rows.num_rows
        except MissingColumnError:
            raise
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            what = " ".join(str(error).split())
            msg = f"{table}, version {number}: {file} can't be read ({what})"
            raise UnreadableFileError(msg) from error

    def _open(self, table: str, number: int) -> TableSnapshot:
        """Open a version of a table. Cache the last version, because most files share a version."""
        if self._snapshot is None or self._opened != (table, number):
            self._snapshot, self._opened = open_snapshot(table, number), (table, number)
        return self._snapshot

    def _choose(self, schema: pa.Schema) -> list[str] | None:
        wanted = self.params.columns
        if wanted is None:
            return None
        for name in wanted:
            if name not in schema.names and name != _KEY:
                msg = f"there is no column {name!r}; the columns are: {', '.join(schema.names)}"
                raise MissingColumnError(msg)
        return [name for name in wanted if name in schema.names]

    def _add_key(self, rows: pa.Table, file: str, first: int) -> pa.Table:
        """Add a key to each row, unless the table has keys or `columns` excludes them."""
        is_wanted = self.params.columns is None or _KEY in self.params.columns
        if not is_wanted or _KEY in rows.column_names:
            return rows
        keys = pa.array(
            (f"{file}#{row}" for row in range(first, first + rows.num_rows)), pa.string()
        )
        return rows.add_column(0, pa.field(_KEY, pa.string()), keys)
