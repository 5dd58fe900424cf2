"""The stage `filter-code-quality`: bounds on a code column's shape, each with its counter."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column, keep_rows


@register("filter-code-quality")
class FilterCodeQuality(Stage):
    """Keeps rows of reasonable make-up; a row is counted under the first rule it breaks."""

    class Params(Stage.Params):
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
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def process(self, task: Task) -> Task | None:
        """Drop the rows that break a rule; a null counts as empty text."""
        column = pc.fill_null(find_column(task.table, self.params.column), "")
        kept = pa.chunked_array([pa.array([True] * len(column), pa.bool_())])
        for name, passed in self._judge(column).items():
            broken = pc.and_not(kept, passed)
            self._count(name, broken)
            kept = pc.and_(kept, passed)
        return keep_rows(task, task.table, kept)

    def _count(self, name: str, broken: pa.ChunkedArray) -> None:
        number = pc.sum(broken).as_py() or 0
        if number:
            self.count(f"dropped: {name}", number)

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
