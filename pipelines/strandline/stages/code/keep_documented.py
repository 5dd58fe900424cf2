"""The stage `keep-documented`: functions whose docstring says something."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.stages.columns import find_column
from strandline.stages.tables.rows.row_filter import JudgedRows, RowFilter


@register("keep-documented")
class KeepDocumented(RowFilter):
    """Keeps the rows whose documentation has enough words."""

    class Params(RowFilter.Params):
        """How much documentation."""

        column: str = Field(default="docstring", description="Column with the documentation.")
        min_words: int = Field(default=3, ge=1, description="Fewest words, split at white space.")

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows with too few words; a null has none."""
        column = find_column(table, self.params.column)
        words = pc.fill_null(pc.count_substring_regex(column, r"[^\s]+"), 0)
        least = self.params.min_words
        reasons = [None if number >= least else "undocumented" for number in words.to_pylist()]
        return JudgedRows(table, reasons)
