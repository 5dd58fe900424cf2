"""The stage `list-similar`: lists the rows that are similar to another row of their cluster."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.tables.columns import find_column, list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.key_lists import KEY, STAYS
from strandline_packs.vectors.similarity import KeepRule, SimilarRows, find_similar, order_rows
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
        show: list[str] = Field(
            default=[],
            description="Columns to copy from the row that goes, and from the row that stays as "
            "`stays_<column>`, for `show-samples`.",
        )

        @field_validator("show")
        @classmethod
        def _check(cls, show: list[str]) -> list[str]:
            names = [*SCHEMA.names, *show, *(f"stays_{each}" for each in show)]
            if repeated := sorted({each for each in names if names.count(each) > 1}):
                msg = f"the list would have two columns {repeated[0]!r}; leave it out"
                raise ValueError(msg)
            return show

    scope = "partition"
    mixes_rows = True
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        params = self.params
        return (params.key, params.vector, "cluster", "closeness", *params.show)

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        shown = (each for name in self.params.show for each in (name, f"stays_{name}"))
        return Columns((*SCHEMA.names, *shown))

    def process(self, task: Task) -> Task:
        """Return a row for each row that goes, or an empty table.

        Raises:
            MissingColumnError: a column is missing.
            VectorError: the column has no vectors of one size.
        """
        table = task.table
        keys = np.array(list_texts(table, self.params.key), object)
        rows, stays, cosines = self._compare(table, keys)
        columns = [
            pa.array(each, kind)
            for each, kind in zip((keys[rows], keys[stays], cosines), SCHEMA.types, strict=True)
        ]
        found = pa.Table.from_arrays(columns, schema=SCHEMA)
        for name in self.params.show:
            shown = find_column(table, name)
            found = found.append_column(name, shown.take(pa.array(rows)))
            found = found.append_column(f"stays_{name}", shown.take(pa.array(stays)))
        self.count("similar rows", found.num_rows)
        return task.replace(found)

    def _compare(self, table: pa.Table, keys: npt.NDArray[np.object_]) -> SimilarRows:
        """Return the similar rows of all clusters."""
        params = self.params
        clusters = find_column(table, "cluster").to_numpy()
        closeness = find_column(table, "closeness").to_numpy()
        vectors = read_vectors(table, params.vector)
        none = np.empty(0, np.int64)
        parts = [SimilarRows(none, none, np.empty(0))]
        for cluster in np.unique(clusters):
            rows = np.flatnonzero(clusters == cluster)
            order = order_rows(keys[rows], closeness[rows], params.keep)
            similar = find_similar(vectors[rows], order, params.threshold)
            parts.append(SimilarRows(rows[similar.rows], rows[similar.stays], similar.cosines))
        return SimilarRows(*map(np.concatenate, zip(*parts, strict=True)))

    def find_retained(self, table: pa.Table, row: int) -> str | None:
        """Return the key that stays instead of a row of the list."""
        return table[STAYS][row].as_py() if STAYS in table.column_names else None
