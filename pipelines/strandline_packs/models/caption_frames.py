"""The stage `caption-frames`: adds captions to clips, from a model that outputs tokens."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import open_binary
from strandline.data.tables.columns import find_column, set_column
from strandline.plan.task import Task
from strandline_packs.models.onnx_models import ModelParams, ModelStage


class CaptionFrames(ModelStage):
    """Adds `caption`: the tokens that a model outputs for the middle frame of each clip."""

    class Params(ModelParams):
        """Configures the model and its vocabulary."""

        vocabulary: str = Field(
            min_length=1,
            description="Text file at a path or URL with one token per line; the first line is "
            "token 0. The model outputs token numbers, so decoding must be part of its graph.",
        )
        end_token: int | None = Field(
            default=None, ge=0, description="Number of the token that ends a caption."
        )
        separator: str = Field(default=" ", description="Text between two tokens.")

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the locations of the model and the vocabulary."""
            return [*super().list_places(), ("vocabulary", self.vocabulary)]

    params: Params
    keeps_columns = True
    adds_columns = ("caption",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def setup(self) -> None:
        """Load the vocabulary and the model."""
        with open_binary(self.params.vocabulary) as file:
            self._words = file.read().decode().splitlines()
        super().setup()

    def process(self, task: Task) -> Task:
        """Caption every clip; all clips of the task share batches.

        Raises:
            MissingColumnError: the column `frames` is missing.
            IndexError: the model outputs a token that is not in the vocabulary.
        """
        clips = find_column(task.table, "frames").to_pylist()
        answers = self._model.run([clip[len(clip) // 2] for clip in clips])
        captions = [self._join(answer.ravel().tolist()) for answer in answers]
        return task.replace(set_column(task.table, "caption", captions, pa.string()))

    def _join(self, tokens: list[int]) -> str:
        end = self.params.end_token
        kept = tokens[: tokens.index(end)] if end in tokens else tokens
        return self.params.separator.join(self._words[token] for token in kept)
