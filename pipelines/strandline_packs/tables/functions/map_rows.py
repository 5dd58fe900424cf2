"""The stage `map-rows`: changes row by row by a function of the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.tables.schemas import parse_schema
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.functions.user_function import (
    FunctionParam,
    load_function,
    name_function,
)


class MapRows(Stage):
    """Replaces each row with the row or rows that a function returns."""

    class Params(Stage.Params):
        """Names the function, and the types of columns that it adds."""

        function: FunctionParam = Field(
            description="`module:function`, or in Python the function. It takes a row as a "
            "dictionary, and returns a row, a list of rows, or None to drop the row."
        )
        types: dict[str, Any] = Field(
            default_factory=dict,
            description="Types of new columns, as in `schema` of a reader. Other new columns get "
            "the type of their values in each task; columns of the input keep their type.",
        )

        @field_validator("types")
        @classmethod
        def _check_types(cls, types: dict[str, Any]) -> dict[str, Any]:
            parse_schema(types)
            return types

    params: Params

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(is_open=True)

    def setup(self) -> None:
        """Load the function, and parse the types."""
        self._function = load_function(self.params.function)
        self._kinds = {field.name: field.type for field in parse_schema(self.params.types)}

    def process(self, task: Task) -> Task | None:
        """Return the rows that the function makes, and count the rows that it drops.

        Raises:
            TypeError: the function returns something else.
            pyarrow.ArrowException: a value does not fit the type of its column.
        """
        name, dropped = name_function(self.params.function), 0
        made: list[Mapping[str, Any]] = []
        for row in task.table.to_pylist():
            answer = self._function(row)
            dropped += answer is None
            made += _list_rows(answer, name)
        if dropped:
            self.count(f"dropped: {name}", dropped)
        if not made:
            return None
        kinds = {field.name: field.type for field in task.table.schema}
        return task.replace(_build_table(made, kinds | self._kinds))


def _list_rows(answer: object, name: str) -> Iterator[Mapping[str, Any]]:
    for row in answer if isinstance(answer, list) else [answer]:
        if isinstance(row, Mapping):
            yield row
        elif row is not None:
            what = f"`{name}` returned {type(row).__name__}"
            msg = f"{what}, not a dictionary, a list of dictionaries, or None"
            raise TypeError(msg)


def _build_table(rows: list[Mapping[str, Any]], kinds: Mapping[str, pa.DataType]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row.get(name) for row in rows] for name in names}
    return pa.table({name: pa.array(column, kinds.get(name)) for name, column in values.items()})
