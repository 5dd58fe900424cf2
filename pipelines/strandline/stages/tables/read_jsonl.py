"""The stage `read-jsonl`: the rows of JSON Lines files, in tasks of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.task import Task
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import (
    LEAST_WINDOW,
    READ_ERRORS,
    UnreadableFileError,
    ZstdWindow,
    open_decompressed,
)
from strandline.stages.tables.batching import cut_batches
from strandline.stages.tables.contents.first_bytes import (
    describe_contents,
    describe_misnamed,
    explain_misread,
)
from strandline.stages.tables.contents.json_rows import (
    RowMisfit,
    build_conformed,
    build_table,
)
from strandline.stages.tables.contents.partition_columns import (
    PartitionColumnError,
    Partitioning,
    parse_folders,
)
from strandline.stages.tables.contents.stream_lines import BadLines, list_lines
from strandline.stages.tables.rows.schema_reader import SchemaReader

_MOST_DIGITS = 4000  # of which Python makes a number
_BEYOND = 10**_MOST_DIGITS  # stands for any larger one


@register("read-jsonl")
class ReadJsonl(SchemaReader):
    """Parses the files in `path`; each line becomes a row with `key` = file and line number."""

    class Params(SchemaReader.Params):
        """How rows are read."""

        max_rows: int = Field(default=10_000, ge=1, description="Most rows of a task.")
        max_task_bytes: int = Field(
            default=64 << 20,
            ge=1,
            description="Bytes of lines after which a task ends, whatever `maxRows` says.",
        )
        max_line_bytes: int = Field(
            default=256 << 20,
            ge=1,
            description="Most bytes of a line. One that has more is never in memory; `badLines` "
            "says what becomes of it.",
        )
        partitioning: Partitioning = Field(
            default=Partitioning.NONE,
            description="`hive`: folders such as `year=2024` above a file become columns of text.",
        )
        zstd_window: ZstdWindow = LEAST_WINDOW
        bad_lines: BadLines = Field(
            default=BadLines.FAIL,
            description="Lines that are no JSON object, or have a value that doesn't fit into its "
            "column: `fail` the source, naming file, line and column, or `drop` and count them. "
            "A file of which no line is left fails.",
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = SchemaReader.added_params | {
        "max_line_bytes",
        "max_task_bytes",
        "partitioning",
        "zstd_window",
    }
    keeps_columns = False
    adds_columns = ("key",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows; .gz, .zst, .bz2 and .lz4 are decompressed.

        Raises:
            UnreadableFileError: a file can't be read, no row came of one that has lines, or a line
                is bad and `badLines` is `fail`.
        """
        files = list_references(task)
        with_rows = set()
        params = self.params
        lines = (line for file in files for line in self._read(file))
        for chunk in cut_batches(lines, _measure, params.max_rows, params.max_task_bytes):
            table, misfits = self._build([line.row for line in chunk])
            for at, misfit in sorted(misfits.items()):
                self._refuse(chunk[at], misfit)
            with_rows |= {line.file.key for at, line in enumerate(chunk) if at not in misfits}
            if table is not None:
                yield task.replace(table)
        for file in files:
            if file.key not in with_rows:
                self._check_empty(file)

    def _build(self, rows: list[dict[str, Any]]) -> tuple[pa.Table | None, dict[int, RowMisfit]]:
        return build_table(rows) if self.schema is None else build_conformed(rows, self.schema)

    def _read(self, file: FileReference) -> Iterator[_Line]:
        is_first = True
        try:
            folders = self._parse_folders(file)
            with open_decompressed(file.path, self.params.zstd_window) as stream:
                lines = list_lines(stream, self.params.max_line_bytes, file.start, file.stop)
                for number, line in enumerate(lines, 1):
                    # Lines before a range are not counted, so its rows are known by their byte.
                    name = f"{file.key}#B{line.at}" if file.is_range else f"{file.key}#L{number}"
                    if line.content is None:
                        self._refuse_long(name, line.size)
                    elif text := line.content.strip():
                        row = _parse(line.content)
                        if row is not None:
                            row = {"key": name} | row
                            _check_folders(name, row, folders)
                            yield _Line(file, name, line.size, row | folders)
                        else:
                            is_start = is_first and not file.start
                            self._refuse_line(file, name, text, is_first=is_start)
                    else:
                        continue
                    is_first = False
        except READ_ERRORS as error:
            raise explain_misread(file, error) from error

    def _parse_folders(self, file: FileReference) -> dict[str, str | None]:
        if self.params.partitioning is Partitioning.NONE:
            return {}
        try:
            return parse_folders(file.key)
        except PartitionColumnError as error:
            raise UnreadableFileError(f"{file.key}: {error}") from error

    def _refuse_long(self, name: str, size: int) -> None:
        most = self.params.max_line_bytes
        if self.params.bad_lines is BadLines.FAIL:
            msg = f"{name}: the line has {size:,} bytes, more than maxLineBytes ({most:,})"
            raise UnreadableFileError(msg)
        self.count("dropped: line larger than maxLineBytes")

    def _refuse_line(self, file: FileReference, name: str, text: bytes, *, is_first: bool) -> None:
        # Lines of an array are its items at best, and the last of them looks like a row.
        is_array = is_first and _begins_array(text)
        if is_array or self.params.bad_lines is BadLines.FAIL:
            what = f"{name}: not a JSON object"
            raise UnreadableFileError(
                f"{what}; {describe_contents(file.path)}" if is_first else what
            )
        self.count("dropped: not a JSON object")

    def _refuse(self, line: _Line, misfit: RowMisfit) -> None:
        if self.params.bad_lines is BadLines.FAIL:
            column = f"the column {misfit.column!r} has " if misfit.column else ""
            msg = f"{line.name}: {column}{misfit.details}"
            raise UnreadableFileError(msg)
        self.count(f"dropped: {misfit.reason}")

    def _check_empty(self, file: FileReference) -> None:
        """Raise for a file that gave no row, but where there is nothing in it by its own format.

        Raises:
            UnreadableFileError: it has lines, or is not packed as its name says.
        """
        with open_decompressed(file.path, self.params.zstd_window) as stream:
            lines = list_lines(stream, self.params.max_line_bytes, file.start, file.stop)
            number = sum(1 for line in lines if line.content is None or line.content.strip())
        if number:
            what = f"none of its {number:,} lines is a row" if number > 1 else "no line is a row"
            raise UnreadableFileError(f"{file.key}: {what}; {describe_contents(file.path)}")
        # A range of a file may be the middle of a long line.
        if not file.is_range and (misnamed := describe_misnamed(file.path)):
            raise UnreadableFileError(f"{file.key}: {misnamed}")


class _Line(NamedTuple):
    """A row, and where it is from."""

    file: FileReference
    name: str
    size: int
    row: dict[str, Any]


def _measure(line: _Line) -> int:
    return line.size


def _check_folders(name: str, row: Mapping[str, Any], folders: Mapping[str, str | None]) -> None:
    for column in folders:
        if column in row:
            msg = f"{name}: the column {column!r} is in the name of its folder as well"
            raise UnreadableFileError(msg)


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; None where it is none."""
    try:
        # Not as bytes: of a file in UTF-16, whose lines end within a character, Python takes some.
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
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text.startswith(b"[")
    return False
