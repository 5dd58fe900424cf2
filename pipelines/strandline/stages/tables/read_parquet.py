"""The stage `read-parquet`: the rows of Parquet row groups, in tasks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import MissingColumnError, find_column
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import (
    UnreadableFileError,
    explain_error,
    open_binary,
)
from strandline.stages.tables.contents.first_bytes import describe_contents
from strandline.stages.tables.contents.row_groups import (
    NoParquetError,
    ParquetDamageError,
    open_parquet,
    read_group,
)


@register("read-parquet")
class ReadParquet(Stage):
    """Reads the row groups that a table names, whole or some columns of them."""

    class Params(Stage.Params):
        """What is read."""

        columns: tuple[str, ...] | None = Field(
            default=None, min_length=1, description="Columns to read; all of them when unset."
        )
        max_rows: int = Field(default=10_000, ge=1, description="Most rows of a task.")

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "row_group")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        # Which columns a file has is not known before it is opened.
        return Columns(self.params.columns or (), is_open=self.params.columns is None)

    def process(self, task: Task) -> list[Task] | None:
        """Return tasks of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file can't be read or is no Parquet.
            MissingColumnError: a wanted column is not in the file.
        """
        groups = find_column(task.table, "row_group").to_pylist()
        tasks = [
            task.replace(table)
            for file, group in zip(list_references(task), groups, strict=True)
            for table in self._read(file, group)
        ]
        return tasks or None

    def _read(self, file: FileReference, group: int) -> Iterator[pa.Table]:
        try:
            with open_binary(file.path) as stream:
                table = self._read_group(open_parquet(stream), group)
        except NoParquetError as error:
            msg = f"{file.key}: {error}; {describe_contents(file.path)}"
            raise UnreadableFileError(msg) from error
        except (OSError, ParquetDamageError, pa.ArrowException, OverflowError) as error:
            raise explain_error(file.key, error) from error
        for start in range(0, table.num_rows, self.params.max_rows):
            yield table.slice(start, self.params.max_rows)

    def _read_group(self, parquet: pq.ParquetFile, group: int) -> pa.Table:
        columns = self.params.columns
        names = parquet.schema_arrow.names
        for name in columns or ():
            if name not in names:
                msg = f"there is no column {name!r}; there are: {', '.join(names)}"
                raise MissingColumnError(msg)
        return read_group(parquet, group, columns)
