"""The stage `keep-documented`: functions whose docstring says something."""

from __future__ import annotations

import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column, keep_rows


@register("keep-documented")
class KeepDocumented(Stage):
    """Keeps the rows whose documentation has enough words."""

    class Params(Stage.Params):
        """How much documentation."""

        column: str = Field(default="docstring", description="Column with the documentation.")
        min_words: int = Field(default=3, ge=1, description="Fewest words, split at white space.")

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def process(self, task: Task) -> Task | None:
        """Drop and count the rows with too few words; a null has none."""
        column = find_column(task.table, self.params.column)
        words = pc.fill_null(pc.count_substring_regex(column, r"[^\s]+"), 0)
        mask = pc.greater_equal(words, self.params.min_words)
        self.count("dropped: undocumented", len(mask) - (pc.sum(mask).as_py() or 0))
        return keep_rows(task, task.table, mask)
