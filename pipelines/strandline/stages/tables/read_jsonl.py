"""The stage `read-jsonl`: the rows of JSON Lines files, in tasks of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import (
    READ_ERRORS,
    UnreadableFileError,
    open_decompressed,
)
from strandline.stages.tables.contents.first_bytes import (
    describe_contents,
    describe_misnamed,
    explain_misread,
)
from strandline.stages.tables.contents.json_rows import RowMisfit, build_table

_MOST_DIGITS = 4000  # of which Python makes a number
_BEYOND = 10**_MOST_DIGITS  # stands for any larger one


class BadLines(StrEnum):
    """What becomes of a line that is no JSON object, or whose values don't fit into a table."""

    FAIL = "fail"
    DROP = "drop"


@register("read-jsonl")
class ReadJsonl(Stage):
    """Parses the files in `path`; each line becomes a row with `key` = file and line number."""

    class Params(Stage.Params):
        """How rows are read."""

        max_rows: int = Field(default=10_000, ge=1, description="Most rows of a task.")
        bad_lines: BadLines = Field(
            default=BadLines.FAIL,
            description="Lines that are no JSON object, or have a value that doesn't fit into its "
            "column: `fail` the source, naming file, line and column, or `drop` and count them. "
            "A file of which no line is left fails.",
        )

    params: Params
    keeps_columns = False
    adds_columns = ("key",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        # The lines name their fields themselves.
        return replace(super().change_columns(columns), is_open=True)

    def process(self, task: Task) -> list[Task] | None:
        """Return tasks of at most `maxRows` rows; .gz, .zst, .bz2 and .lz4 are decompressed.

        Raises:
            UnreadableFileError: a file can't be read, no row came of one that has lines, or a line
                is bad and `badLines` is `fail`.
        """
        files = list_references(task)
        lines = (line for file in files for line in self._read(file))
        tasks, with_rows = [], set()
        while chunk := list(islice(lines, self.params.max_rows)):
            table, misfits = build_table([line.row for line in chunk])
            for at, misfit in sorted(misfits.items()):
                self._refuse(chunk[at], misfit)
            with_rows |= {line.file.key for at, line in enumerate(chunk) if at not in misfits}
            if table is not None:
                tasks.append(task.replace(table))
        for file in files:
            if file.key not in with_rows:
                self._check_empty(file)
        return tasks or None

    def _read(self, file: FileReference) -> Iterator[_Line]:
        is_first = True
        try:
            with open_decompressed(file.path) as lines:
                for number, line in enumerate(lines, 1):
                    if not (text := line.strip()):
                        continue
                    row = _parse(line)
                    if row is not None:
                        key = f"{file.key}#L{number}"
                        yield _Line(file, number, {"key": key} | row)
                    else:
                        self._refuse_line(file, number, text, is_first=is_first)
                    is_first = False
        except READ_ERRORS as error:
            raise explain_misread(file, error) from error

    def _refuse_line(
        self, file: FileReference, number: int, text: bytes, *, is_first: bool
    ) -> None:
        # Lines of an array are its items at best, and the last of them looks like a row.
        is_array = is_first and _begins_array(text)
        if is_array or self.params.bad_lines is BadLines.FAIL:
            what = f"{file.key}#L{number}: not a JSON object"
            raise UnreadableFileError(
                f"{what}; {describe_contents(file.path)}" if is_first else what
            )
        self.count("dropped: not a JSON object")

    def _refuse(self, line: _Line, misfit: RowMisfit) -> None:
        if self.params.bad_lines is BadLines.FAIL:
            column = f"the column {misfit.column!r} has " if misfit.column else ""
            msg = f"{line.file.key}#L{line.number}: {column}{misfit.details}"
            raise UnreadableFileError(msg)
        self.count(f"dropped: {misfit.reason}")

    def _check_empty(self, file: FileReference) -> None:
        """Raise for a file that gave no row, but where there is nothing in it by its own format.

        Raises:
            UnreadableFileError: it has lines, or is not packed as its name says.
        """
        with open_decompressed(file.path) as lines:
            number = sum(1 for line in lines if line.strip())
        if number:
            what = f"none of its {number:,} lines is a row" if number > 1 else "no line is a row"
            raise UnreadableFileError(f"{file.key}: {what}; {describe_contents(file.path)}")
        if misnamed := describe_misnamed(file.path):
            raise UnreadableFileError(f"{file.key}: {misnamed}")


class _Line(NamedTuple):
    """A row, and where it is from."""

    file: FileReference
    number: int
    row: dict[str, Any]


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
