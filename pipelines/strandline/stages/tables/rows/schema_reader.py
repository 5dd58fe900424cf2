"""What readers have in common of files that say themselves which columns they have.

Without a schema each task has the types that stand in its own rows, and files of one run need not
open as one data set. It must not know how rows are read, nor where a schema is kept that was
inferred.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import BaseModel, Field, field_validator

from strandline.plan.columns import Columns
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.sources.opening import UnreadableFileError
from strandline.stages.tables.contents.conforming import SchemaMisfitError, conform_table
from strandline.stages.tables.contents.schemas import parse_schema, simplify, unify

KEY = "key"
_INFER = "infer"


class SchemaReader(Stage):
    """Reads tables of one schema, where one is declared or inferred.

    Attributes:
        schema: of all that it gives; None: each task has its own.
    """

    class Params(Stage.Params):
        """What each of these readers has."""

        schema_: dict[str, Any] | None = Field(
            default=None,
            alias="schema",
            min_length=1,
            description="Columns and their types, for all files: `{note: text, score: float, "
            "tags: [text], meta: {lines: int}}`, or `{infer: 4}` to read the first four sources "
            "before the run and keep with the ledger what they have. A column that is not there "
            "is null; one that the schema does not have, or a value of another type, is refused.",
        )

        @field_validator("schema_")
        @classmethod
        def _check_schema(cls, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
            if wanted is None:
                return None
            count = wanted.get(_INFER)
            if not isinstance(count, int):
                parse_schema(wanted)
            elif len(wanted) > 1:
                msg = f"`{_INFER}` stands alone: what is declared is not inferred"
                raise ValueError(msg)
            elif count < 1:
                msg = f"`{_INFER}` is a number of sources, at least 1"
                raise ValueError(msg)
            return wanted

    added_params: ClassVar[frozenset[str]] = frozenset({"schema_"})
    params: Params
    schema: pa.Schema | None = None

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401
        super().__init__(params, **values)
        declared = self.params.schema_
        if declared is not None and not self.sample_size:
            self.schema = self._with_key(parse_schema(declared))

    @property
    def sample_size(self) -> int:
        """Return of how many sources the schema is to be inferred; 0 where it is not to be."""
        wanted = (self.params.schema_ or {}).get(_INFER)
        return wanted if isinstance(wanted, int) else 0

    def settle(self, schema: pa.Schema) -> Self:
        """Return the same reader with the schema that was inferred for it."""
        settled = copy.copy(self)
        settled.schema = self._with_key(schema)
        return settled

    def infer_schema(self, tasks: Iterable[Task]) -> pa.Schema | None:
        """Return the schema that holds all that the reader gives for tasks; None for no row.

        Raises:
            SchemaClashError: there is none; it names the column and both types.
            UnreadableFileError: a file can't be read.
        """
        whole: pa.Schema | None = None
        for table in (table for task in tasks for table in self._list_tables(task)):
            schema = simplify(table.schema)
            whole = schema if whole is None else unify(whole, schema)
        return whole

    def _list_tables(self, task: Task) -> Iterator[pa.Table]:
        answer = self.process(task)
        # A user's own reader passes here too, and may give one task or a list.
        slots = answer if isinstance(answer, Iterable) else [answer]
        return (each.table for each in slots if isinstance(each, Task))

    def change_columns(self, columns: Columns) -> Columns:
        """Declare the schema's columns, and none but these."""
        del columns
        if self.schema is None:
            return Columns((KEY,), is_open=True)
        return Columns(tuple(self.schema.names))

    def find_conflict(self, before: Any) -> str | None:  # noqa: ANN401 - as in `Stage`
        """Refuse to infer where other stages would have to be run before."""
        if self.sample_size and len(before) > 1:
            return "infers its schema from what the source lists, so it has to come first"
        return None

    def conform(self, location: str, table: pa.Table) -> pa.Table:
        """Return a table of the schema, where there is one.

        Args:
            location: where the table is from; rows are named by their key.

        Raises:
            UnreadableFileError: it does not fit; the message names location, column and both types.
        """
        if self.schema is None:
            return table
        try:
            return conform_table(table, self.schema)
        except SchemaMisfitError as error:
            if error.row is not None and KEY in table.column_names:
                location = str(table.column(KEY)[error.row].as_py() or location)
            raise UnreadableFileError(f"{location}: {error}") from error

    def _with_key(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema that has a column for the key, which readers add."""
        if KEY in schema.names:
            return schema
        return schema.insert(0, pa.field(KEY, pa.string()))
