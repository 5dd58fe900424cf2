"""The stage `read-parquet`: reads the rows of Parquet row groups, in tasks of bounded size."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.data.files.globs import is_url
from strandline.data.files.opening import (
    PART_AHEAD,
    UnreadableFileError,
    explain_error,
    open_binary,
)
from strandline.data.tables.columns import MissingColumnError, find_column
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import SchemaReader
from strandline.plan.stages.columns import Columns
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import describe_contents
from strandline_packs.tables.contents.partition_columns import (
    PartitionColumnError,
    Partitioning,
    append_columns,
    parse_folders,
)
from strandline_packs.tables.contents.row_groups import (
    NoParquetError,
    ParquetDamageError,
    open_parquet,
    read_group,
)

_KEY = "key"


class ReadParquet(SchemaReader):
    """Reads row groups, or some of their columns. Adds a `key` to rows that have none."""

    class Params(SchemaReader.Params):
        """Configures the columns to read, and the size of tasks."""

        columns: tuple[str, ...] | None = Field(
            default=None,
            min_length=1,
            description="Columns to read; all columns when unset. `key` is the file's own column, "
            "or made of the row's position, such as `a.parquet#rg=0.17`.",
        )
        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")
        max_task_bytes: int = Field(
            default=64 << 20,
            ge=1,
            description="Approximate maximum size of a task in bytes; a single row may be larger.",
        )
        partitioning: Partitioning = Field(
            default=Partitioning.NONE,
            description="`hive`: folders such as `year=2024` above a file become columns of text.",
        )

    version = "2"
    params: Params
    reads_rows = True
    added_params: ClassVar[frozenset[str]] = SchemaReader.added_params | {
        "max_task_bytes",
        "partitioning",
    }

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "row_group")

    def change_columns(self, columns: Columns) -> Columns:
        # The columns of a file are unknown before it is opened.
        chosen = self.params.columns
        if chosen is None:
            return super().change_columns(columns)
        return Columns(chosen, is_open=self.params.partitioning is Partitioning.HIVE)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file can't be read or is not Parquet.
            MissingColumnError: the file lacks a requested column.
        """
        groups = find_column(task.table, "row_group").to_pylist()
        for file, group in zip(list_references(task), groups, strict=True):
            for table in self._read(file, group):
                yield task.replace(table)

    def _read(self, file: FileReference, listed: int | None) -> Iterator[pa.Table]:
        is_hive = self.params.partitioning is Partitioning.HIVE
        group, row = listed or 0, 0
        try:
            folders = parse_folders(file.key) if is_hive else {}
            with open_binary(file.path, ahead=PART_AHEAD) as stream:
                parquet = open_parquet(stream, is_far=is_url(file.path), group=group)
                _check_listed(parquet, listed)
                for table in self._read_group(parquet, group):
                    keyed = self._add_key(table, f"{file.key}#rg={group}", row)
                    whole = append_columns(keyed, folders) if folders else keyed
                    yield self.conform(f"{file.key}#rg={group}", whole)
                    row += table.num_rows
        except NoParquetError as error:
            msg = f"{file.key}: {error}; {describe_contents(file.path)}"
            raise UnreadableFileError(msg) from error
        except PartitionColumnError as error:
            raise UnreadableFileError(f"{file.key}: {error}") from error
        except (OSError, ParquetDamageError, pa.ArrowException, OverflowError) as error:
            raise explain_error(file.key, error) from error

    def list_tables(self, task: Task) -> Iterator[pa.Table]:
        """Yield an empty table for each row group. The footer alone provides the column types."""
        # Copy the stage, because the original must continue to read rows.
        reader = copy.copy(self)
        reader.reads_rows = False
        yield from (each.table for each in reader.process(task))

    def _add_key(self, table: pa.Table, source: str, first: int) -> pa.Table:
        """Add a key for each row, unless the table has keys or excludes the column."""
        is_wanted = self.params.columns is None or _KEY in self.params.columns
        if not is_wanted or _KEY in table.column_names:
            return table
        rows = range(first, first + table.num_rows)
        keys = pa.array((f"{source}.{row}" for row in rows), pa.string())
        return table.add_column(0, pa.field(_KEY, pa.string()), keys)

    def conform(self, location: str, table: pa.Table) -> pa.Table:
        """Convert a table to the schema, limited to the columns that are read."""
        chosen = self.params.columns
        conformed = super().conform(location, table)
        if self.schema is None or chosen is None:
            return conformed
        folders = [name for name in table.column_names if name not in chosen]
        return conformed.select([*chosen, *folders])

    def _list_fillable(self) -> list[str]:
        """Return the columns that are filled if a file lacks them."""
        return [_KEY] if self.schema is None else [_KEY, *self.schema.names]

    def _read_group(self, parquet: pq.ParquetFile, group: int) -> Iterator[pa.Table]:
        columns = self.params.columns
        names = parquet.schema_arrow.names
        for name in columns or ():
            if name not in names and name not in self._list_fillable():
                msg = f"there is no column {name!r}; the columns are: {', '.join(names)}"
                raise MissingColumnError(msg)
        stored = None if columns is None else [name for name in columns if name in names]
        if not self.reads_rows:
            types = parquet.schema_arrow.empty_table()
            return iter([types if stored is None else types.select(stored)])
        params = self.params
        return read_group(
            parquet, group, stored, most_rows=params.max_rows, most_bytes=params.max_task_bytes
        )


def _check_listed(parquet: pq.ParquetFile, listed: int | None) -> None:
    """Check that a file has the listed row group, or one group if the listing found no footer."""
    number = parquet.metadata.num_row_groups
    if listed is None and number > 1:
        # Reading the first group only would silently lose the other groups.
        what = f"its footer could not be read when it was listed; it has {number:,} row groups"
        raise ParquetDamageError(f"{what}, which the next run reads")
