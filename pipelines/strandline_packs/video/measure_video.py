"""The stage `measure-video`: measures whether clips are dark, blurred, still, or captioned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.pictures import Picture
from strandline_packs.video.measures import Look, measure_look, to_grey


class FrameMeasures(Stage):
    """Adds a column of numbers for each measure of a clip's `frames`."""

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Measure every clip.

        Raises:
            MissingColumnError: the column with frames is missing.
        """
        clips, table = find_column(task.table, "frames"), task.table
        # Convert one clip at a time: pixels as Python values take additional memory.
        measured = [self._measure(clip.as_py()) for clip in clips]
        for index, name in enumerate(self.adds_columns):
            table = set_column(table, name, [each[index] for each in measured], pa.float64())
        return task.replace(table)

    @abstractmethod
    def _measure(self, frames: Sequence[Picture]) -> tuple[float, ...]:
        """Return the measures of a clip, in the order of `adds_columns`."""


class MeasureVideo(FrameMeasures):
    """Adds measures of each clip's `frames`: brightness, sharpness, black, frozen, text shares."""

    adds_columns = Look._fields

    def _measure(self, frames: Sequence[Picture]) -> Look:
        """Return the measures of a clip's appearance."""
        return measure_look(to_grey(frames))
