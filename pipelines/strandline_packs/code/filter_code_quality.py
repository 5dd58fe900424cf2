"""The stage `filter-code-quality`: drops code outside limits of shape, with a counter per limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from pydantic.alias_generators import to_camel

from strandline.data.tables.columns import find_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline.data.tables.rules import Rule


class FilterCodeQuality(RowFilter):
    """Keeps code of reasonable shape. A dropped row counts under the first rule it breaks."""

    class Params(RowFilter.Params):
        """Sets the limits of the rules."""

        column: str = Field(default="source", description="Column with the code.")
        min_lines: int = Field(default=3, ge=0, description="Minimum number of lines.")
        max_lines: int = Field(default=300, ge=1, description="Maximum number of lines.")
        min_characters: int = Field(default=40, ge=0, description="Minimum number of characters.")
        max_characters: int = Field(
            default=20_000, ge=1, description="Maximum number of characters."
        )
        max_mean_line_length: float = Field(
            default=100.0, gt=0, description="Maximum mean line length in characters."
        )
        min_alphanumeric_ratio: float = Field(
            default=0.25, ge=0, le=1, description="Minimum share of letters and digits."
        )
        max_comment_ratio: float = Field(
            default=0.5, ge=0, le=1, description="Maximum share of lines that are comments."
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop the rows that break a rule; a null counts as empty text."""
        column = pc.fill_null(find_column(table, self.params.column), "")
        measures = {name: each.to_pylist() for name, each in _measure(column).items()}
        rows = zip(*measures.values(), strict=True)
        reasons = [self._apply_rules(zip(measures, values, strict=True)).reason for values in rows]
        return JudgedRows(table, reasons, measures)

    def list_rules(self) -> Sequence[Rule]:
        def limit(reason: str, measure: str, field: str, *, is_count: bool = False) -> Rule:
            value = getattr(self.params, field)
            return Rule(reason, measure, to_camel(field), value, field[:3] == "min", is_count)

        return (
            limit("too few lines", "lines", "min_lines", is_count=True),
            limit("too many lines", "lines", "max_lines", is_count=True),
            limit("too short", "characters", "min_characters", is_count=True),
            limit("too long", "characters", "max_characters", is_count=True),
            limit("long lines", "mean_line_length", "max_mean_line_length"),
            limit("few letters", "alphanumeric_ratio", "min_alphanumeric_ratio"),
            limit("mostly comments", "comment_ratio", "max_comment_ratio"),
        )


def _measure(column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    lines = pc.add(pc.count_substring(column, "\n"), 1)
    size = pc.utf8_length(column)
    # Letters and digits of every script.
    letters = pc.count_substring_regex(column, r"[\pL\pN]")
    # Lines that have only a comment, such as `    # why`. Code before `#` does not count.
    comments = pc.count_substring_regex(column, r"(?m)^[ \t]*#")
    return {
        "lines": lines,
        "characters": size,
        "mean_line_length": _ratio(size, lines),
        "alphanumeric_ratio": _ratio(letters, size),
        "comment_ratio": _ratio(comments, lines),
    }


def _ratio(part: pa.ChunkedArray, whole: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `part / whole` as floating point, or 0 for an empty whole."""
    divisor = pc.max_element_wise(whole, 1)
    return pc.divide(pc.cast(part, pa.float64()), pc.cast(divisor, pa.float64()))
