"""The stage `extract-functions`: creates a row for each function in a table's Python files.

A single stage both parses the files and creates the rows, because passing syntax trees between
stages costs too much.
"""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.code.function_syntax import (
    FunctionRow,
    UnparsableSourceError,
    list_functions,
)

FUNCTION_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("name", pa.string()),
        pa.field("lineno", pa.int32()),
        pa.field("end_lineno", pa.int32()),
        pa.field("signature", pa.string()),
        pa.field("docstring", pa.string()),
        pa.field("source", pa.string()),
        pa.field("decorators", pa.list_(pa.string())),
        pa.field("is_async", pa.bool_()),
        pa.field("is_method", pa.bool_()),
    ]
)


class ExtractFunctions(Stage):
    """Parses `text` into a row per function: key, name, lines, signature, docstring, source."""

    class Params(Stage.Params):
        """Configures which functions to extract."""

        nested: bool = Field(default=False, description="Also extract functions inside functions.")

    params: Params
    keeps_columns = False
    adds_columns = tuple(FUNCTION_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "text")

    def process(self, task: Task) -> Task | None:
        """Return all functions of all files; files that don't parse are dropped and counted."""
        rows: list[tuple[object, ...]] = []
        keys, texts = list_strings(task.table, "key"), list_strings(task.table, "text")
        for key, text in zip(keys, texts, strict=True):
            rows.extend((key, *row) for row in self._parse(text))
        return task.replace(_build_table(rows)) if rows else None

    def _parse(self, text: str) -> list[FunctionRow]:
        try:
            return list_functions(text, nested=self.params.nested)
        except UnparsableSourceError:
            self.count("dropped: not parsable")
            return []


def _build_table(rows: list[tuple[object, ...]]) -> pa.Table:
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), FUNCTION_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=FUNCTION_SCHEMA)
