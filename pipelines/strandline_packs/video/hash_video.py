"""The stage `hash-video`: describes the appearance of a clip in words.

Copies of a clip have most of their words in common. `sketch-texts` reads the words like the words
of a text, so the passes that find near-duplicate texts also find near-duplicate clips.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.video.measures import hash_frames, to_grey


class HashVideo(Stage):
    """Adds `hash`: the difference hashes of some of a clip's `frames`, in words for MinHash."""

    class Params(Stage.Params):
        """Configures the number of frames to hash."""

        samples: int = Field(
            default=8,
            ge=1,
            le=16,
            description="Number of frames, evenly spread over the clip, that are hashed.",
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    keeps_columns = True
    adds_columns = ("hash",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Hash every clip.

        Raises:
            MissingColumnError: the column with frames is missing.
        """
        clips = find_column(task.table, "frames")
        hashes = [hash_frames(to_grey(clip.as_py()), self.params.samples) for clip in clips]
        return task.replace(set_column(task.table, "hash", hashes, pa.string()))
