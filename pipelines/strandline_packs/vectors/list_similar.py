"""The stage `list-similar`: lists the rows that are similar to another row of their cluster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.key_lists import KEY, STAYS
from strandline_packs.vectors.similarity import KeepRule, find_similar, order_rows
from strandline_packs.vectors.vector_columns import read_vectors

SCHEMA = pa.schema([(KEY, pa.string()), (STAYS, pa.string()), ("cosine", pa.float64())])


class ListSimilar(Stage):
    """Lists the rows that go for `drop-listed`, each with a row that stays, and the cosine.

    All rows of a cluster must be in one task.
    """

    class Params(Stage.Params):
        """Configures the threshold, and the row that stays."""

        threshold: float = Field(
            default=0.95, gt=0, le=1, description="Minimum cosine of similar rows."
        )
        keep: KeepRule = Field(
            default=KeepRule.HARDEST,
            description="Row that stays among similar rows: `hardest`, farthest from the center of "
            "the cluster; `easiest`, nearest to the center; or `first` by key.",
        )
        key: str = Field(default="key", min_length=1, description="Column of the keys.")
        vector: str = Field(default="vector", min_length=1, description="Column of the vectors.")

    scope = "partition"
    mixes_rows = True
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.vector, "cluster", "closeness")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(tuple(SCHEMA.names))

    def process(self, task: Task) -> Task:
        """Return a row for each row that goes, or an empty table.

        Raises:
            MissingColumnError: a column is missing.
            VectorError: the column has no vectors of one size.
        """
        parts = list(self._compare(task.table))
        found = pa.concat_tables([SCHEMA.empty_table(), *parts])
        self.count("similar rows", found.num_rows)
        return task.replace(found)

    def _compare(self, table: pa.Table) -> Iterator[pa.Table]:
        params = self.params
        keys = np.array(list_texts(table, params.key), object)
        clusters = find_column(table, "cluster").to_numpy()
        closeness = find_column(table, "closeness").to_numpy()
        vectors = read_vectors(table, params.vector)
        for cluster in np.unique(clusters):
            rows = np.flatnonzero(clusters == cluster)
            order = order_rows(keys[rows], closeness[rows], params.keep)
            similar = find_similar(vectors[rows], order, params.threshold)
            columns = [keys[rows[similar.rows]], keys[rows[similar.stays]], similar.cosines]
            arrays = map(pa.array, columns, SCHEMA.types)
            yield pa.Table.from_arrays(list(arrays), schema=SCHEMA)

    def find_retained(self, table: pa.Table, row: int) -> str | None:
        """Return the key that stays instead of a row of the list."""
        return table[STAYS][row].as_py() if STAYS in table.column_names else None
