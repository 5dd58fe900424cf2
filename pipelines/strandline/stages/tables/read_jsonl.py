"""The stage `read-jsonl`: the rows of JSON Lines files, in tasks of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import (
    READ_ERRORS,
    UnreadableFileError,
    explain_error,
    open_decompressed,
)


class BadLines(StrEnum):
    """What becomes of a line that is no JSON object."""

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
            description="Lines that are no JSON object: `fail` the source, naming file and line, "
            "or `drop` and count them.",
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
            UnreadableFileError: a file can't be read, or a line is bad and `badLines` is `fail`.
        """
        rows = (row for file in list_references(task) for row in self._read(file))
        tasks = []
        while chunk := list(islice(rows, self.params.max_rows)):
            tasks.append(task.replace(_build_table(chunk)))
        return tasks or None

    def _read(self, file: FileReference) -> Iterator[dict[str, Any]]:
        try:
            with open_decompressed(file.path) as lines:
                for number, line in enumerate(lines, 1):
                    yield from self._parse(f"{file.key}#L{number}", line)
        except READ_ERRORS as error:
            raise explain_error(file.key, error) from error

    def _parse(self, key: str, line: bytes) -> Iterator[dict[str, Any]]:
        if not line.strip():
            return
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield {"key": key} | row
        elif self.params.bad_lines is BadLines.FAIL:
            msg = f"{key}: not a JSON object"
            raise UnreadableFileError(msg)
        else:
            self.count("dropped: not a JSON object")


def _build_table(rows: list[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        msg = f"{rows[0]['key']}: fields of different types in one column ({error})"
        raise UnreadableFileError(msg) from error
