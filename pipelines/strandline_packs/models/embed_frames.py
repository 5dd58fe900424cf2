"""The stage `embed-frames`: adds embeddings of clips, computed by an image model."""

from __future__ import annotations

from importlib import import_module

import pyarrow as pa

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.task import Task
from strandline_packs.models.onnx_models import ModelStage


class EmbedFrames(ModelStage):
    """Adds `embedding`: the mean of the model's outputs for the `frames`, scaled to length 1."""

    keeps_columns = True
    adds_columns = ("embedding",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Embed every clip; the frames of all clips of the task share batches.

        Raises:
            MissingColumnError: the column `frames` is missing.
        """
        np = import_module("numpy")
        clips = find_column(task.table, "frames").to_pylist()
        answers = self._model.run([frame for clip in clips for frame in clip])
        vectors = []
        for clip in clips:
            total = np.sum([next(answers).ravel().astype("float64") for _ in clip], axis=0)
            # A vector of length 0 has no direction and stays 0.
            vectors.append((total / (np.linalg.norm(total) or 1)).astype("float32").tolist())
        kind = pa.list_(pa.float32())
        return task.replace(set_column(task.table, "embedding", vectors, kind))
