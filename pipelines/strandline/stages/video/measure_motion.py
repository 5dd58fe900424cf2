"""The stage `measure-motion`: how much of a clip moves from one of its frames to the next."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column, set_column
from strandline.stages.video.measures import Motion, measure_steps, to_grey


@register("measure-motion")
class MeasureMotion(Stage):
    """Adds `motion`, the mean change of a clip's `frames`, and `moving_share` of their cells."""

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    keeps_columns = True
    adds_columns = Motion._fields

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("frames",)

    def process(self, task: Task) -> Task:
        """Measure every clip.

        Raises:
            MissingColumnError: there are no frames.
        """
        clips = find_column(task.table, "frames")
        motions = [measure_steps(to_grey(clip.as_py())) for clip in clips]
        table = task.table
        for name in Motion._fields:
            table = set_column(table, name, [getattr(each, name) for each in motions], pa.float64())
        return task.replace(table)
