"""The stage `measure-video`: what tells good clips from dark, blurred, still and titled ones."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column, set_column
from strandline.stages.video.measures import Look, measure_look, to_grey


@register("measure-video")
class MeasureVideo(Stage):
    """Adds measures of each clip's `frames`: brightness, sharpness, black, frozen, text shares."""

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    keeps_columns = True
    adds_columns = Look._fields

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Measure every clip.

        Raises:
            MissingColumnError: there are no frames.
        """
        clips = find_column(task.table, "frames")
        # one clip at a time, since its pixels as Python's values are as many bytes again
        looks = [measure_look(to_grey(clip.as_py())) for clip in clips]
        table = task.table
        for name in Look._fields:
            table = set_column(table, name, [getattr(each, name) for each in looks], pa.float64())
        return task.replace(table)
