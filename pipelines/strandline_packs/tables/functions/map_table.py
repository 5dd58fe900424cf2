"""The stage `map-table`: changes a whole table by a function of the user."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.functions.frames import Frame, from_frame, to_frame
from strandline_packs.tables.functions.user_function import (
    FunctionParam,
    load_function,
    name_function,
)


class MapTable(Stage):
    """Replaces each table with the result of a function of a data-frame library."""

    class Params(Stage.Params):
        """Names the function, and the library of its tables."""

        function: FunctionParam = Field(
            description="`module:function`, or in Python the function. It takes a table with all "
            "columns, and returns a table, or None to drop all rows. A table has the rows of one "
            "task, so the function sees only a part of the data."
        )
        frame: Frame = Field(
            default=Frame.PANDAS,
            description="Library of the tables: `pandas` (with Arrow's types), `polars`, `arrow`, "
            "`datasets` for functions with `Dataset.map`, or `daft`.",
        )

    mixes_rows: ClassVar[bool] = True
    params: Params

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(is_open=True)

    def setup(self) -> None:
        """Load the function."""
        self._function = load_function(self.params.function)

    def process(self, task: Task) -> Task | None:
        """Return the table that the function makes, or None if it returns None.

        Raises:
            TypeError: the function returns something else.
        """
        frame = self.params.frame
        made = self._function(to_frame(task.table, frame))
        if made is None:
            self.count(f"dropped: {name_function(self.params.function)}", task.num_rows)
            return None
        return task.replace(from_frame(made, frame, name_function(self.params.function)))
