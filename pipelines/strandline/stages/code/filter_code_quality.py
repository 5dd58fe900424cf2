"""The stage `filter-code-quality`: bounds on a code column's shape, each with its counter."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.stages.columns import find_column
from strandline.stages.tables.rows.row_filter import JudgedRows, RowFilter


@register("filter-code-quality")
class FilterCodeQuality(RowFilter):
    """Keeps rows of reasonable make-up; a row is counted under the first rule it breaks."""

    class Params(RowFilter.Params):
        """The bounds."""

        column: str = Field(default="source", description="Column with the code.")
        min_lines: int = Field(default=3, ge=0, description="Fewest lines.")
        max_lines: int = Field(default=300, ge=1, description="Most lines.")
        min_characters: int = Field(default=40, ge=0, description="Fewest characters.")
        max_characters: int = Field(default=20_000, ge=1, description="Most characters.")
        max_mean_line_length: float = Field(
            default=100.0, gt=0, description="Highest mean line length in characters."
        )
        min_alphanumeric_ratio: float = Field(
            default=0.25, ge=0, le=1, description="Lowest share of letters and digits."
        )
        max_comment_ratio: float = Field(
            default=0.5, ge=0, le=1, description="Highest share of lines that are comments."
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop the rows that break a rule; a null counts as empty text."""
        column = pc.fill_null(find_column(table, self.params.column), "")
        reasons: list[str | None] = [None] * len(column)
        for name, passed in self._judge(column).items():
            for at, is_kept in enumerate(passed.to_pylist()):
                if not is_kept:
                    reasons[at] = reasons[at] or name
        return JudgedRows(table, reasons)

    def _judge(self, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
        bounds = self.params
        lines = pc.add(pc.count_substring(column, "\n"), 1)
        size = pc.utf8_length(column)
        letters = pc.count_substring_regex(column, r"[\pL\pN]")
        comments = pc.count_substring_regex(column, r"(?m)^[ \t]*#")
        return {
            "too few lines": pc.greater_equal(lines, bounds.min_lines),
            "too many lines": pc.less_equal(lines, bounds.max_lines),
            "too short": pc.greater_equal(size, bounds.min_characters),
            "too long": pc.less_equal(size, bounds.max_characters),
            "long lines": pc.less_equal(_ratio(size, lines), bounds.max_mean_line_length),
            "few letters": pc.greater_equal(_ratio(letters, size), bounds.min_alphanumeric_ratio),
            "mostly comments": pc.less_equal(_ratio(comments, lines), bounds.max_comment_ratio),
        }


def _ratio(part: pa.ChunkedArray, whole: pa.ChunkedArray) -> pa.ChunkedArray:
    """`part / whole` as floating point; of an empty whole, 0."""
    divisor = pc.max_element_wise(whole, 1)
    return pc.divide(pc.cast(part, pa.float64()), pc.cast(divisor, pa.float64()))
