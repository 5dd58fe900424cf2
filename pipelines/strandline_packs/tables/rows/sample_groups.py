"""The stage `sample-groups`: keeps a number of rows from each group, selected by their keys."""

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
    """Keeps some rows of each group of a task, by a digest of their keys.

    A larger sample contains all smaller samples with the same seed.
    """

    class Params(Stage.Params):
        """Configures the number of rows, their groups, and the keys that choose rows."""

        rows: int = Field(ge=1, description="Maximum number of rows to keep in each group.")
        group: str = Field(
            min_length=1, description="Column with the group of a row, such as `language`."
        )
        column: str = Field(
            default="key", min_length=1, description="Column that determines which rows stay."
        )
        seed: int = Field(default=0, description="A different seed keeps different rows.")

    scope = "partition"
    params: Params
    keeps_columns = True
    mixes_rows = True  # whether a row stays depends on the other rows of its group

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.group, self.params.column)

    def change_columns(self, columns: Columns) -> Columns:
        return columns

    def process(self, task: Task) -> Task:
        """Keep the first rows of each group, in their order, and count the dropped rows.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has values that can't be converted to text.
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
    """Return the rank of each row in its group, from 1, in a random order from seed and keys.

    Rows with the same key keep their relative order.
    """
    order = sorted(range(len(keys)), key=lambda row: (draw_share(keys[row], seed), keys[row]))
    ranks, counts = [0] * len(keys), dict[str, int]()
    for row in order:
        ranks[row] = counts[groups[row]] = counts.get(groups[row], 0) + 1
    return ranks
