"""The stage `keep-documented`: keeps functions with a meaningful docstring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.data.tables.columns import find_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Rule


class KeepDocumented(RowFilter):
    """Keeps rows whose documentation has at least `minWords` words."""

    class Params(RowFilter.Params):
        """Names the column, and sets the minimum amount of documentation."""

        column: str = Field(default="docstring", description="Column with the documentation.")
        min_words: int = Field(
            default=3, ge=1, description="Minimum number of words, split at white space."
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count rows with too few words. A null has no words."""
        column = find_column(table, self.params.column)
        words = pc.fill_null(pc.count_substring_regex(column, r"[^\s]+"), 0)
        verdicts = [self._apply_rules([("words", number)]) for number in words.to_pylist()]
        reasons = [verdict.reason for verdict in verdicts]
        return JudgedRows(table, reasons, spread_measures(verdicts))

    def list_rules(self) -> Sequence[Rule]:
        least = self.params.min_words
        return (Rule("undocumented", "words", "minWords", least, is_least=True, is_count=True),)
