"""The stage `select-columns`: selects, reorders, and renames columns."""

from __future__ import annotations

from typing import Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.tables.columns import find_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class SelectColumns(Stage):
    """Keeps the named columns in the order they are named."""

    class Params(Stage.Params):
        """Names the columns to keep."""

        columns: tuple[str, ...] = Field(min_length=1, description="Columns to keep, in order.")
        rename: dict[str, str] = Field(
            default={}, description="New names of columns, by their current names."
        )

        @model_validator(mode="after")
        def _check_names(self) -> Self:
            unknown = next((name for name in self.rename if name not in self.columns), None)
            if unknown is not None:
                msg = f"`rename` names {unknown!r}, which is not in `columns`"
                raise ValueError(msg)
            names = [self.rename.get(name, name) for name in self.columns]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                msg = f"two columns would be called {twice!r}"
                raise ValueError(msg)
            return self

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        names = (self.params.rename.get(name, name) for name in self.params.columns)
        return Columns(tuple(names))

    def process(self, task: Task) -> Task:
        """Return the same rows with the selected columns.

        Raises:
            MissingColumnError: a column is missing.
        """
        columns = [find_column(task.table, name) for name in self.params.columns]
        names = [self.params.rename.get(name, name) for name in self.params.columns]
        return task.replace(pa.Table.from_arrays(columns, names=names))
