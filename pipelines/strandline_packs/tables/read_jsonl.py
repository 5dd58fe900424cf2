"""The stage `read-jsonl`: reads the rows of JSON Lines files, in tasks of bounded size."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import (
    LEAST_WINDOW,
    RANGE_AHEAD,
    READ_ERRORS,
    BadInput,
    UnreadableFileError,
    ZstdWindow,
    open_decompressed,
)
from strandline.data.tables.conforming import SchemaMisfitError, conform_table
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import KEY, SchemaReader
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import (
    describe_contents,
    describe_misnamed,
    explain_misread,
)
from strandline_packs.tables.contents.json_rows import (
    RowMisfit,
    build_conformed,
    build_table,
)
from strandline_packs.tables.contents.json_tables import JsonTables
from strandline_packs.tables.contents.line_portions import LinePortion, LineQueue
from strandline_packs.tables.contents.partition_columns import (
    PartitionColumnError,
    Partitioning,
    parse_folders,
)
from strandline_packs.tables.contents.stream_lines import list_blocks, list_lines

# Without this call, glibc keeps the memory of freed lines, which is as large as a task.
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
_LARGE_BYTES = 16 << 20  # a smaller task is not worth the call
_MOST_DIGITS = 4000  # maximum number of digits that Python converts to an integer
_BEYOND = 10**_MOST_DIGITS  # stands for any larger integer


class ReadJsonl(SchemaReader):
    """Parses the files in `path` into rows. The `key` is the file and the line number."""

    class Params(SchemaReader.Params):
        """Configures size limits, and how invalid lines are handled."""

        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")
        max_task_bytes: int = Field(
            default=64 << 20,
            ge=1,
            description="Number of bytes of lines after which a task ends, even before `maxRows`.",
        )
        max_line_bytes: int = Field(
            default=256 << 20,
            ge=1,
            description="Maximum number of bytes of a line. Longer lines are never held in memory; "
            "`badLines` determines their treatment.",
        )
        partitioning: Partitioning = Field(
            default=Partitioning.NONE,
            description="`hive`: folders such as `year=2024` above a file become columns of text.",
        )
        zstd_window: ZstdWindow = LEAST_WINDOW
        bad_lines: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of lines that are not JSON objects or have a value that does "
            "not fit its column: `fail` the source with file, line and column, or "
            "`drop` and count them. A file without any valid line fails.",
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = SchemaReader.added_params | {
        "max_line_bytes",
        "max_task_bytes",
        "partitioning",
        "zstd_window",
    }
    keeps_columns = False
    adds_columns = (KEY,)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (KEY, "path")

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows; .gz, .zst, .bz2 and .lz4 are decompressed.

        Raises:
            UnreadableFileError: a file can't be read, no line of a file is a valid row, or a line
                is invalid and `badLines` is `fail`.
        """
        files = list_references(task)
        with_rows = set()
        params = self.params
        queue = LineQueue(portion for file in files for portion in self._read(file))
        tables = JsonTables()
        while portions := queue.take(params.max_rows, params.max_task_bytes):
            # After a read failure, the slow path reports bad lines before that failure.
            table = None if queue.failure else self._build_quickly(portions, tables)
            if table is not None:
                for portion in portions:
                    with_rows.add(portion.file.reference.key)
                    portion.file.is_first = False
            else:
                chunk = self._fill(portions, queue)
                if not chunk:
                    continue
                table, misfits = self._build([line.row for line in chunk])
                for at, misfit in sorted(misfits.items()):
                    self._refuse(chunk[at], misfit)
                with_rows |= {line.file.key for at, line in enumerate(chunk) if at not in misfits}
            portions.clear()  # frees the lines before the table is copied
            if table is not None:
                table = _combine(table)
                yield task.replace(table)
                del table  # only one table is in memory
        if queue.failure:
            raise queue.failure
        for file in files:
            if file.key not in with_rows:
                self._check_empty(file)

    def _build(self, rows: list[dict[str, Any]]) -> tuple[pa.Table | None, dict[int, RowMisfit]]:
        return build_table(rows) if self.schema is None else build_conformed(rows, self.schema)

    def _build_quickly(self, portions: list[_Lines], tables: JsonTables) -> pa.Table | None:
        """Return the result of `_fill` and `_build`, or None if only they can build it."""
        if any(portion.file.folders for portion in portions):
            return None
        table = tables.parse([line for portion in portions for line in portion.lines])
        if table is None:
            return None
        columns = dict(zip(table.column_names, table.columns, strict=True))
        # Only Python distinguishes a null key from a missing one.
        if KEY in columns and columns[KEY].null_count:
            return None
        names = [name for portion in portions for name in _name_lines(portion)]
        columns = {KEY: pa.array(names, pa.string())} | columns
        table = pa.table(columns)
        if self.schema is None:
            return table
        try:
            return conform_table(table, self.schema)
        except SchemaMisfitError:
            return None

    def _fill(self, portions: list[_Lines], queue: LineQueue[_LinedFile]) -> list[_Line]:
        """Return the rows of a task. Invalid lines do not count toward its limits.

        Raises:
            UnreadableFileError: a line is invalid, or the rest of the file is unreadable.
        """
        chunk: list[_Line] = []
        rows, size = self.params.max_rows, self.params.max_task_bytes
        while portions:
            for line in (line for portion in portions for line in self._parse(portion)):
                chunk.append(line)
                rows -= 1
                size -= line.size
            portions = [] if queue.failure else queue.take(rows, size)
        if queue.failure:
            raise queue.failure
        return chunk

    def _read(self, file: FileReference) -> Iterator[_Lines]:
        try:
            opened = _LinedFile(file, self._parse_folders(file))
            window, ahead = self.params.zstd_window, RANGE_AHEAD if file.is_range else None
            with open_decompressed(file.path, window, ahead=ahead) as stream:
                number = 1
                blocks = list_blocks(stream, self.params.max_line_bytes, file.start, file.stop)
                for block in blocks:
                    yield LinePortion(opened, number, *block)
                    number += len(block.lines)
        except READ_ERRORS as error:
            raise explain_misread(file, error) from error

    def _parse(self, portion: _Lines) -> Iterator[_Line]:
        opened = portion.file
        file, folders = opened.reference, opened.folders
        for name, content, size in zip(
            _name_lines(portion), portion.lines, portion.sizes, strict=True
        ):
            if content is None:
                self._refuse_long(name, size)
            elif text := content.strip():
                row = _parse(content)
                if row is not None:
                    # A key in the row takes precedence over the position.
                    row = {KEY: name} | row
                    _check_folders(name, row, folders)
                    yield _Line(file, name, size, row | folders)
                else:
                    is_start = opened.is_first and not file.start
                    self._refuse_line(file, name, text, is_first=is_start)
            else:
                continue
            opened.is_first = False

    def _parse_folders(self, file: FileReference) -> dict[str, str | None]:
        if self.params.partitioning is Partitioning.NONE:
            return {}
        try:
            return parse_folders(file.key)
        except PartitionColumnError as error:
            raise UnreadableFileError(f"{file.key}: {error}") from error

    def _refuse_long(self, name: str, size: int) -> None:
        most = self.params.max_line_bytes
        if self.params.bad_lines is BadInput.FAIL:
            msg = f"{name}: the line has {size:,} bytes, more than maxLineBytes ({most:,})"
            raise UnreadableFileError(msg)
        self.count("dropped: line larger than maxLineBytes")

    def _refuse_line(self, file: FileReference, name: str, text: bytes, *, is_first: bool) -> None:
        # Lines of a pretty-printed array look like items, and the last one looks like a row.
        is_array = is_first and _begins_array(text)
        if is_array or self.params.bad_lines is BadInput.FAIL:
            what = f"{name}: not a JSON object"
            raise UnreadableFileError(
                f"{what}; {describe_contents(file.path)}" if is_first else what
            )
        self.count("dropped: not a JSON object")

    def _refuse(self, line: _Line, misfit: RowMisfit) -> None:
        if self.params.bad_lines is BadInput.FAIL:
            column = f"the column {misfit.column!r} has " if misfit.column else ""
            remedy = "" if self.schema is None else self.explain_refusal()
            msg = f"{line.name}: {column}{misfit.details}{remedy}"
            raise UnreadableFileError(msg)
        self.count(f"dropped: {misfit.reason}")

    def _check_empty(self, file: FileReference) -> None:
        """Reject a file without rows, unless the file really is empty.

        Raises:
            UnreadableFileError: the file has lines, or is not compressed as its name implies.
        """
        with open_decompressed(file.path, self.params.zstd_window) as stream:
            lines = list_lines(stream, self.params.max_line_bytes, file.start, file.stop)
            number = sum(1 for line in lines if line.content is None or line.content.strip())
        if number:
            what = f"none of its {number:,} lines is a row" if number > 1 else "no line is a row"
            raise UnreadableFileError(f"{file.key}: {what}; {describe_contents(file.path)}")
        # Check whole files only: a range may be empty if it is inside a long line.
        if not file.is_range and (misnamed := describe_misnamed(file.path)):
            raise UnreadableFileError(f"{file.key}: {misnamed}")


@dataclass(slots=True)
class _LinedFile:
    """State of a file: whether no line has been examined yet, and the columns from folder names."""

    reference: FileReference
    folders: dict[str, str | None]
    is_first: bool = True


def _combine(table: pa.Table) -> pa.Table:
    """Return the table with one chunk per column. The lines must be freed already."""
    if table.nbytes > _LARGE_BYTES and _TRIM is not None:
        _TRIM(0)
    return table.combine_chunks()


_Lines = LinePortion[_LinedFile]


class _Line(NamedTuple):
    """A row and its origin."""

    file: FileReference
    name: str
    size: int
    row: dict[str, Any]


def _name_lines(portion: _Lines) -> list[str]:
    """Return a name for each line.

    In a range, names use byte offsets: earlier lines are not counted.
    """
    key = portion.file.reference.key
    if portion.file.reference.is_range:
        return [f"{key}#B{at}" for at in accumulate(portion.sizes[:-1], initial=portion.at)]
    return [f"{key}#L{number}" for number, _ in enumerate(portion.lines, portion.number)]


def _check_folders(name: str, row: Mapping[str, Any], folders: Mapping[str, str | None]) -> None:
    for column in folders:
        if column in row:
            msg = f"{name}: the column {column!r} is in the name of its folder as well"
            raise UnreadableFileError(msg)


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line, or None for other content."""
    try:
        # Decode first: `json.loads` would accept bytes of UTF-16, where a line end may split a
        # character.
        text = line.decode("utf-8-sig")
        row = json.loads(text)
    except UnicodeDecodeError:
        return None
    except (ValueError, RecursionError):
        row = _parse_long_numbers(text)
    return row if isinstance(row, dict) else None


def _parse_long_numbers(line: str) -> object:
    """Parse a line that has whole numbers of more digits than Python converts."""
    try:
        return json.loads(line, parse_int=_parse_digits)
    except (ValueError, RecursionError):
        return None


def _parse_digits(digits: str) -> int:
    return int(digits) if len(digits) < _MOST_DIGITS else _BEYOND


def _begins_array(text: bytes) -> bool:
    text = text.removeprefix(b"\xef\xbb\xbf")
    # A complete array on a line is a bad row; only a partial array begins a pretty-printed file.
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text.startswith(b"[")
    return False
