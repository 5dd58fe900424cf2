"""The stage `compare-vectors`: adds the cosine of two vectors of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.vectors.vector_columns import VectorError, read_vectors, scale


class CompareVectors(Stage):
    """Adds `cosine` of two vectors, such as those of a picture and of its caption by CLIP.

    `keep-rows` can drop rows by the cosine.
    """

    class Params(Stage.Params):
        """Names the columns."""

        columns: tuple[str, str] = Field(
            default=("vector", "text_vector"), description="Two columns of vectors of one size."
        )
        into: str = Field(default="cosine", min_length=1, description="Column of the cosine.")

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def list_added(self) -> tuple[str, ...]:
        return (self.params.into,)

    def process(self, task: Task) -> Task:
        """Compare the vectors of each row.

        Raises:
            MissingColumnError: a column is missing.
            VectorError: vectors have different sizes.
        """
        for name in self.params.columns:
            find_column(task.table, name)
        first, second = (scale(read_vectors(task.table, name)) for name in self.params.columns)
        if first.shape != second.shape:
            names = " and ".join(self.params.columns)
            msg = f"the vectors of {names} have {first.shape[1]} and {second.shape[1]} values"
            raise VectorError(msg)
        cosines = pa.array(np.einsum("ij,ij->i", first, second), pa.float64())
        return task.replace(set_column(task.table, self.params.into, cosines, pa.float64()))
