"""The stage `embed-images`: adds a vector of each decoded picture."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.task import Task
from strandline_packs.models.onnx_models import ModelParams, ModelStage
from strandline_packs.vectors.vector_columns import build_column


class EmbedImages(ModelStage):
    """Adds `vector`: the model's output for the `picture`, as 16-bit floats scaled to length 1."""

    class Params(ModelParams):
        """Configures the model, and the columns."""

        column: str = Field(
            default="picture", min_length=1, description="Column of `decode-images`' pictures."
        )
        into: str = Field(default="vector", min_length=1, description="Column of the vectors.")

    params: Params
    keeps_columns = True
    packages: ClassVar[tuple[str, ...]] = ModelStage.packages

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def list_added(self) -> tuple[str, ...]:
        return (self.params.into,)

    def process(self, task: Task) -> Task:
        """Embed every picture.

        Raises:
            MissingColumnError: the column is missing.
        """
        pictures = find_column(task.table, self.params.column).to_pylist()
        if not pictures:
            return task
        vectors = np.stack([output.ravel() for output in self._model.run(pictures)])
        column = build_column(vectors)
        return task.replace(set_column(task.table, self.params.into, column, column.type))
