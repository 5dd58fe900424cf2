"""The stage `keep-rows`: keeps rows whose columns satisfy a condition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.tables.rows.row_expressions import RowExpression


class KeepRows(RowFilter):
    """Keeps the rows for which an expression is true, and drops and counts the others."""

    class Params(RowFilter.Params):
        """Sets the condition that rows must meet."""

        where: str = Field(
            min_length=1,
            description="Condition in Python's notation, such as `score >= 0.5 and language == "
            "'en'`: columns, also fields (`image.width`), numbers, texts, `== != < <= > >=`, `in "
            "('en', 'de')`, `is None`, `and or not`, `+ - * /`, and the functions len, lower, "
            "upper, contains, startswith, endswith, abs, isnan, time('2026-01-31').",
        )
        reason: str = Field(
            default="expression",
            min_length=1,
            description="Reason under which dropped rows are counted. The suffix ` is null` marks "
            "rows for which a null makes the condition undecidable.",
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            RowExpression(self.where)
            return self

    params: Params

    def list_needed_columns(self) -> Iterable[str]:
        return RowExpression(self.params.where).list_columns()

    def setup(self) -> None:
        """Parse the expression."""
        self._expression = RowExpression(self.params.where)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows for which the condition is not true.

        Raises:
            ExpressionError: an operation does not fit the types of its columns.
            MissingColumnError: a column is missing.
        """
        holds = self._expression.compute(table)
        reason = self.params.reason
        kept, dropped, unknown = (
            pa.scalar(each, pa.string()) for each in (None, reason, f"{reason} is null")
        )
        reasons = pc.if_else(holds, kept, dropped)
        return JudgedRows(table, pc.if_else(pc.is_valid(holds), reasons, unknown))
