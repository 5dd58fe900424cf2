"""The stage `filter-rows`: keeps the rows that a function of the user accepts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.tables.functions.user_function import (
    FunctionParam,
    load_function,
    name_function,
)


class FilterRows(RowFilter):
    """Keeps the rows for which a function returns True, and drops and counts the others."""

    class Params(RowFilter.Params):
        """Names the function, its columns, and the reason of dropped rows."""

        function: FunctionParam = Field(
            description="`module:function`, or in Python the function. It takes the values of "
            "`columns`, and returns True to keep the row, False or None to drop it, or a text: the "
            "reason to drop it."
        )
        columns: tuple[str, ...] = Field(
            default=("text",),
            min_length=1,
            description="Columns whose values the function takes, in this order.",
        )
        reason: str | None = Field(
            default=None,
            min_length=1,
            description="Reason of rows for which the function returns False or None; by default "
            "its name.",
        )

    params: Params

    def list_needed_columns(self) -> Iterable[str]:
        return self.params.columns

    def setup(self) -> None:
        """Load the function."""
        self._function = load_function(self.params.function)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows that the function does not accept.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the function returns something else.
        """
        columns = [find_column(table, name).to_pylist() for name in self.params.columns]
        rows = zip(*columns, strict=True)
        return JudgedRows(table, [self._find_reason(self._function(*row)) for row in rows])

    def _find_reason(self, answer: object) -> str | None:
        name = name_function(self.params.function)
        if isinstance(answer, bool | np.bool_ | None):
            return None if answer else self.params.reason or name
        if isinstance(answer, str) and answer:
            return answer
        msg = f"`{name}` returned {answer!r:.50}, not True, False, or the reason to drop a row"
        raise TypeError(msg)
