"""The stage `sample-groups`: so many rows of each group, chosen by their keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.rows.sample_rows import draw_share


class SampleGroups(Stage):
    """Keeps some rows of each group of a task, by a digest of their keys; more contain fewer."""

    class Params(Stage.Params):
        """How many, of what, and by what."""

        rows: int = Field(ge=1, description="Rows that are kept of each group, at most.")
        group: str = Field(
            min_length=1, description="Column with what rows are of, such as `language`."
        )
        column: str = Field(
            default="key", min_length=1, description="Column with what decides which rows stay."
        )
        seed: int = Field(default=0, description="Another one keeps other rows.")

    scope = "partition"
    params: Params
    keeps_columns = True
    mixes_rows = True  # other rows of a group decide whether a row stays

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.group, self.params.column)

    def change_columns(self, columns: Columns) -> Columns:
        return columns

    def process(self, task: Task) -> Task:
        """Keep the first rows of each group, in their order; the others are counted.

        Raises:
            MissingColumnError: a column is not there.
            TypeError: its values can't be written as text.
        """
        table = task.table
        keys, groups = (list_texts(table, name) for name in (self.params.column, self.params.group))
        ranks = rank_keys(groups, keys, self.params.seed)
        kept = pa.array([rank <= self.params.rows for rank in ranks], pa.bool_())
        sampled = table.filter(kept)
        if len(sampled) < len(table):
            self.count("dropped: not sampled", len(table) - len(sampled))
        return task.replace(sampled)


def rank_keys(groups: Sequence[str], keys: Sequence[str], seed: int) -> list[int]:
    """Return the place of each row in its group, from 1, in the order that seed and keys draw.

    Of rows with one key the one that stands first comes first.
    """
    order = sorted(range(len(keys)), key=lambda row: (draw_share(keys[row], seed), keys[row]))
    ranks, counts = [0] * len(keys), dict[str, int]()
    for row in order:
        ranks[row] = counts[groups[row]] = counts.get(groups[row], 0) + 1
    return ranks
