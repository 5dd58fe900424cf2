"""The stage `read-rows`: reads files of several formats, with the reader for the file name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.data.files.file_formats import ROW_ENDINGS, RowFormat, find_ending, find_format
from strandline.data.files.opening import (
    PART_AHEAD,
    READ_ERRORS,
    BadInput,
    UnreadableFileError,
    open_binary,
    open_decompressed,
)
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import KEY, SchemaReader
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import describe_contents, explain_misread
from strandline_packs.tables.read_jsonl import ReadJsonl
from strandline_packs.tables.read_parquet import ReadParquet
from strandline_packs.tables.rows.read_arrow import ReadArrow
from strandline_packs.tables.rows.read_csv import ReadCsv

_UNTYPED = frozenset({RowFormat.CSV, RowFormat.TSV})
_LONGEST_ENDING = 12  # longer endings are parts of names, and would be too many counters


class ReadRows(SchemaReader):
    """Reads CSV, JSON Lines, Parquet, Arrow, and text files side by side, by file name."""

    class Params(SchemaReader.Params):
        """Configures the size of tasks, and the treatment of bad lines and unknown files."""

        delimiter: str = Field(
            default=",",
            min_length=1,
            max_length=1,
            description="Separator between values of .csv files; .tsv files have tabs.",
        )
        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")
        max_task_bytes: int = Field(
            default=64 << 20,
            ge=1,
            description="Approximate maximum size of a task in bytes. Tasks of CSV and Arrow files "
            "are limited by `maxRows` only.",
        )
        bad_lines: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of invalid lines of CSV and JSON Lines files: `fail` the source "
            "with file and line, or `drop` and count them. A file without any valid line fails.",
        )
        unknown_files: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of files with other endings: `fail` the source, or `drop` and "
            "count them by ending.",
        )

    # A new version of a reader changes the rows of this stage too.
    version = "1." + ".".join(each.version for each in (ReadArrow, ReadCsv, ReadJsonl, ReadParquet))
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (KEY, "path")

    def find_kind(self, task: Task) -> str:
        """Return the ending of the first file: other formats may have other columns."""
        return find_ending(list_references(task)[0].path).lower()

    def settle(self, schema: pa.Schema) -> Self:
        """Return a copy of the reader with an inferred schema. Columns of unknown type are text."""
        fields = [(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in schema]
        return super().settle(pa.schema(fields))

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows. A text file is one row of `key` and `text`.

        Raises:
            UnreadableFileError: a file can't be read, or has an unknown ending and `unknownFiles`
                is `fail`.
        """
        for file in list_references(task):
            kind = find_format(file.path)
            if kind is None:
                self._refuse(file)
            elif kind is RowFormat.TEXT:
                yield from map(task.replace, self._read_text(file))
            else:
                yield from self._build_reader(kind).process(task.replace(_refer(file, kind)))

    def list_tables(self, task: Task) -> Iterator[pa.Table]:
        """Yield tables with the types of all rows. Columns of CSV files have no types.

        The other files determine the types of columns, and values in CSV files must fit.
        """
        for file in list_references(task):
            kind, single = find_format(file.path), task.replace(_refer(file))
            if kind in _UNTYPED:
                # All tables of a file have the same columns.
                yield from map(_remove_types, islice(super().list_tables(single), 1))
            elif kind is RowFormat.PARQUET:
                groups = task.replace(_refer(file, kind))
                yield from self._build_reader(kind).list_tables(groups)
            else:
                yield from super().list_tables(single)

    def _build_reader(self, kind: RowFormat) -> ReadArrow | ReadCsv | ReadJsonl | ReadParquet:
        """Return the reader of a format, ready for work, which counts in this stage's name."""
        params = self.params
        bounds: dict[str, Any] = {"schema": params.schema_, "max_rows": params.max_rows}
        wide = bounds | {"max_task_bytes": params.max_task_bytes}
        reader: ReadArrow | ReadCsv | ReadJsonl | ReadParquet
        if kind is RowFormat.PARQUET:
            reader = ReadParquet(**wide)
        elif kind is RowFormat.ARROW:
            reader = ReadArrow(**bounds)
        elif kind is RowFormat.JSONL:
            reader = ReadJsonl(**wide, bad_lines=params.bad_lines)
        else:
            delimiter = "\t" if kind is RowFormat.TSV else params.delimiter
            reader = ReadCsv(**bounds, delimiter=delimiter, bad_lines=params.bad_lines)
        reader.schema = self.schema
        reader.count = self.count  # type: ignore[method-assign]
        reader.setup()
        return reader

    def _read_text(self, file: FileReference) -> Iterator[pa.Table]:
        try:
            with open_decompressed(file.path) as stream:
                text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            msg = f"{file.key}: not text in UTF-8; {describe_contents(file.path)}"
            raise UnreadableFileError(msg) from error
        except READ_ERRORS as error:
            raise explain_misread(file, error) from error
        if text.strip():
            yield self.conform(file.key, pa.table({KEY: [file.key], "text": [text]}))
        else:
            self.count("dropped: empty text file")

    def _refuse(self, file: FileReference) -> None:
        if self.params.unknown_files is BadInput.FAIL:
            raise UnreadableFileError(
                f"{file.key}: the name has none of the known endings ({', '.join(ROW_ENDINGS)}); "
                "leave the file out with `exclude`, or set `unknownFiles: drop`"
            )
        ending = find_ending(file.path).lower()
        shown = ending if 0 < len(ending) <= _LONGEST_ENDING else "no known ending"
        self.count(f"dropped: file of another kind ({shown})")


def _refer(file: FileReference, kind: RowFormat | None = None) -> pa.Table:
    """Return the table that represents a file for a reader: a row, or a row per row group."""
    groups = _list_groups(file.path) if kind is RowFormat.PARQUET else [None]
    columns = {KEY: [file.key] * len(groups), "path": [file.path] * len(groups)}
    return pa.table(columns | {"row_group": pa.array(groups, pa.int32())})


def _list_groups(path: str) -> list[int] | list[None]:
    """Return the row groups of a Parquet file, or [None] if only the reader can explain why not."""
    try:
        with open_binary(path, ahead=PART_AHEAD) as stream:
            return list(range(max(pq.read_metadata(stream).num_row_groups, 1)))
    except (OSError, pa.ArrowException):
        return [None]


def _remove_types(table: pa.Table) -> pa.Table:
    """Return a table with nulls in all columns except the key."""
    nulls = pa.nulls(table.num_rows)
    return pa.table({n: table.column(n) if n == KEY else nulls for n in table.column_names})
