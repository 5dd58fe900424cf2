"""The stage `score-images`: adds scores of pictures, such as of aesthetics or of unsafe content."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from importlib import import_module
from typing import Any, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.task import Task
from strandline_packs.models.model_files import ModelError
from strandline_packs.models.onnx_models import ModelParams, ModelStage


class Activation(StrEnum):
    """Function that turns a model's outputs into scores."""

    NONE = "none"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


class ScoreImages(ModelStage):
    """Adds a column for each output of an image model; `keep-rows` can drop by these columns."""

    class Params(ModelParams):
        """Configures the model, and the columns of its outputs."""

        column: str = Field(
            default="picture", min_length=1, description="Column of `decode-images`' pictures."
        )
        outputs: tuple[str, ...] = Field(
            default=("score",),
            min_length=1,
            description="Columns for the model's outputs, in order, such as `[safe, nsfw]`.",
        )
        activation: Activation = Field(
            default=Activation.NONE,
            description="`softmax` or `sigmoid` turns outputs into probabilities; `none` keeps "
            "them.",
        )

        @model_validator(mode="after")
        def _check_outputs(self) -> Self:
            if len({*self.outputs}) < len(self.outputs) or not all(self.outputs):
                msg = "`outputs` must be different names of columns"
                raise ValueError(msg)
            return self

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def list_added(self) -> tuple[str, ...]:
        return self.params.outputs

    def process(self, task: Task) -> Task:
        """Score every picture.

        Raises:
            MissingColumnError: the column is missing.
            ModelError: the model has another number of outputs.
        """
        pictures = find_column(task.table, self.params.column).to_pylist()
        rows, table = list(self._score(pictures)), task.table
        for at, name in enumerate(self.params.outputs):
            table = set_column(table, name, [row[at] for row in rows], pa.float64())
        return task.replace(table)

    def _score(self, pictures: list[Any]) -> Iterator[list[float]]:
        np, params = import_module("numpy"), self.params
        for output in self._model.run(pictures):
            values = output.ravel().astype("float64")
            if len(values) != len(params.outputs):
                msg = (
                    f"{params.model}: it has {len(values)} outputs for a picture, and `outputs` "
                    f"names {len(params.outputs)}"
                )
                raise ModelError(msg)
            if params.activation is Activation.SIGMOID:
                values = 1 / (1 + np.exp(-values))
            elif params.activation is Activation.SOFTMAX:
                powers = np.exp(values - values.max())
                values = powers / powers.sum()
            yield values.tolist()
