"""The stage `embed-frames`: where a clip stands in the space of a model of pictures."""

from __future__ import annotations

from importlib import import_module

import pyarrow as pa

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.task import Task
from strandline_packs.models.onnx_models import ModelStage


class EmbedFrames(ModelStage):
    """Adds `embedding`: the mean of what a model makes of a clip's `frames`, of length one."""

    keeps_columns = True
    adds_columns = ("embedding",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Embed every clip; the frames of all clips of the task share batches.

        Raises:
            MissingColumnError: there are no frames.
        """
        np = import_module("numpy")
        clips = find_column(task.table, "frames").to_pylist()
        answers = self._model.run([frame for clip in clips for frame in clip])
        vectors = []
        for clip in clips:
            total = np.sum([next(answers).ravel().astype("float64") for _ in clip], axis=0)
            vectors.append((total / (np.linalg.norm(total) or 1)).astype("float32").tolist())
        kind = pa.list_(pa.float32())
        return task.replace(set_column(task.table, "embedding", vectors, kind))
