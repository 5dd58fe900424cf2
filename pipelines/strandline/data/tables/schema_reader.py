"""Base class of readers for files that name their own columns, such as JSON Lines and Parquet.

Without a declared schema, a run infers the schema from a sample of its sources, so that its files
open as one data set. The module must not depend on how rows are read, or on where an inferred
schema is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import BaseModel, Field, field_validator

from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.conforming import SchemaMisfitError, conform_table
from strandline.data.tables.schemas import (
    SchemaClashError,
    parse_schema,
    simplify,
    unify,
)
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

KEY = "key"
_INFER = "infer"
_SAMPLE = 32  # default number of sources in the sample
# Bytes to read from each sampled source. A run rejects later values that do not fit.
_SAMPLED_BYTES = 2 << 20
_SAMPLED_ROWS = 100  # limit per task, because rows may contain images


EXPLAINED = (
    "the schema was inferred from a sample of the sources: declare it under `schema`, or set "
    "`schema: perTask` to infer the types of each task"
)


class Types(StrEnum):
    """How column types are determined if no schema is declared."""

    PER_TASK = "perTask"


class SchemaReader(Stage):
    """Reads tables with a declared or inferred schema, or with the types of each task.

    Attributes:
        schema: schema of all tables, or None if the types of each task are used, or if no schema is
            inferred yet.
    """

    class Params(Stage.Params):
        """Parameters of all schema readers."""

        schema_: dict[str, Any] | Types | None = Field(
            default=None,
            alias="schema",
            description="Columns and their types, for all files: `{note: text, score: float, "
            "tags: [text], meta: {lines: int}}`. `{infer: 4}` infers the schema from the first "
            "four sources before the run and stores it with the ledger; when unset, the beginnings "
            f"of {_SAMPLE} sources are read. A missing column is null; a column that is not in the "
            "schema, or a value of another type, is rejected. `perTask`: no schema; each task has "
            "the types of its own rows.",
        )

        @field_validator("schema_")
        @classmethod
        def _check_schema(cls, wanted: dict[str, Any] | Types | None) -> object:
            if not isinstance(wanted, dict):
                return wanted
            if not wanted:
                msg = "must not be empty; leave it out to have it inferred"
                raise ValueError(msg)
            count = wanted.get(_INFER)
            # A column may be named `infer`. Then the value is a type, not a number.
            if not isinstance(count, int):
                parse_schema(wanted)
            elif len(wanted) > 1:
                msg = f"`{_INFER}` can't be combined with declared columns"
                raise ValueError(msg)
            elif count < 1:
                msg = f"`{_INFER}` must be a number of sources, at least 1"
                raise ValueError(msg)
            return wanted

    added_params: ClassVar[frozenset[str]] = frozenset({"schema_"})
    params: Params
    schema: pa.Schema | None = None

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401
        super().__init__(params, **values)
        declared = self.params.schema_
        if isinstance(declared, dict) and not self.sample_size:
            self.schema = self._with_key(parse_schema(declared))

    @property
    def is_sampled(self) -> bool:
        """Return True if `schema` is unset, so a sample of the sources determines the schema."""
        return self.params.schema_ is None

    @property
    def sample_size(self) -> int:
        """Return the number of sources from which to infer the schema, or 0 to infer none."""
        if self.is_sampled:
            return _SAMPLE
        wanted = self.params.schema_
        count = wanted.get(_INFER) if isinstance(wanted, dict) else None
        return count if isinstance(count, int) else 0

    def find_kind(self, task: Task) -> str:  # noqa: ARG002 - for subclasses
        """Return the kind of a source. A sample has sources of all kinds."""
        return ""

    def settle(self, schema: pa.Schema) -> Self:
        """Return a copy of the reader with an inferred schema."""
        settled = copy.copy(self)
        settled.schema = self._with_key(schema)
        return settled

    def infer_schema(self, tasks: Iterable[Task]) -> pa.Schema | None:
        """Return the schema that fits all rows of the tasks, or None if there are no rows.

        Raises:
            SchemaClashError: if no schema fits all rows; the error names the column and both types.
            UnreadableFileError: if a file can't be read.
        """
        whole: pa.Schema | None = None
        for table in chain.from_iterable(map(self.list_tables, tasks)):
            schema = simplify(table.schema)
            whole = schema if whole is None else unify(whole, schema)
        return whole

    def sample_schema(self, task: Task) -> pa.Schema | None:
        """Return the schema of the beginning of a task, or None if there are no rows.

        Raises:
            UnreadableFileError: if a file can't be read.
        """
        whole: pa.Schema | None = None
        left = _SAMPLED_BYTES
        for table in self._shorten().list_tables(task):
            schema = simplify(table.schema)
            try:
                whole = schema if whole is None else unify(whole, schema)
            except SchemaClashError:  # later rows do not fit; the run rejects or drops them
                break
            left -= table.nbytes
            if left < table.nbytes:  # the next table would probably exceed the limit
                break
        return whole

    def _shorten(self) -> Self:
        """Return a copy of the reader with small tasks, so that the first task arrives soon."""
        fields = type(self.params).model_fields
        # With a limit on bytes, the sample is one task: many small tasks take twice as long.
        name, most = ("max_rows", _SAMPLED_ROWS)
        if "max_task_bytes" in fields:
            name, most = ("max_task_bytes", _SAMPLED_BYTES)
        limits = {name: min(getattr(self.params, name), most)} if name in fields else {}
        shortened = copy.copy(self)
        shortened.params = self.params.model_copy(update=limits)
        return shortened

    def list_tables(self, task: Task) -> Iterator[pa.Table]:
        """Yield tables that together have the types of all rows that the reader returns."""
        answer = self.process(task)
        # Readers written by users may return a task or a list.
        slots = answer if isinstance(answer, Iterable) else [answer]
        return (each.table for each in slots if isinstance(each, Task))

    def change_columns(self, columns: Columns) -> Columns:
        """Return the columns of the schema; without a schema, the key and unknown columns."""
        del columns
        if self.schema is None:
            return Columns((KEY,), is_open=True)
        return Columns(tuple(self.schema.names))

    def find_conflict(self, before: Any) -> str | None:  # noqa: ANN401 - as in `Stage`
        """Return a message if other stages would have to run before the inference, or None."""
        if self.sample_size and not self.is_sampled and len(before) > 1:
            return "infers its schema from the listed sources, so it must be the first stage"
        return None

    def conform(self, location: str, table: pa.Table) -> pa.Table:
        """Convert a table to the schema, if there is one.

        Args:
            location: file or other origin of the table, for messages about rows without a key.

        Raises:
            UnreadableFileError: if the table does not fit; the message names location, column, and
                both types.
        """
        if self.schema is None:
            return table
        try:
            return conform_table(table, self.schema)
        # Name the row's key if possible: with the key, users find the row faster than with the file
        # name.
        except SchemaMisfitError as error:
            if error.row is not None and KEY in table.column_names:
                location = str(table.column(KEY)[error.row].as_py() or location)
            raise UnreadableFileError(f"{location}: {error}{self.explain_refusal()}") from error

    def explain_refusal(self) -> str:
        """Return the remedy if a value does not fit an inferred schema; otherwise, ''."""
        return f"; {EXPLAINED}" if self.is_sampled else ""

    def _with_key(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with a column for the key, which readers add to every table."""
        if KEY in schema.names:
            return schema
        return schema.insert(0, pa.field(KEY, pa.string()))
