"""The stage `measure-images`: adds quality measures and a perceptual hash to each picture."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.pictures import hash_differences, measure


class MeasureImages(Stage):
    """Adds `hash` (dHash), `brightness`, `contrast` and `sharpness` of each `picture`."""

    class Params(Stage.Params):
        """Configures whether to keep the pictures."""

        keep_pictures: bool = Field(
            default=False, description="Keep the column `picture`, which has most of the bytes."
        )

    version = "2"
    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL",)
    keeps_columns = True
    adds_columns = ("hash", "brightness", "contrast", "sharpness")

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("picture",)

    def change_columns(self, columns: Columns) -> Columns:
        changed = super().change_columns(columns)
        return changed if self.params.keep_pictures else changed.without(["picture"])

    def process(self, task: Task) -> Task:
        """Measure every picture.

        Raises:
            MissingColumnError: the table has no pictures.
        """
        pictures = find_column(task.table, "picture").to_pylist()
        table = set_column(task.table, "hash", list(map(hash_differences, pictures)), pa.string())
        measures = [measure(picture) for picture in pictures]
        for name in ("brightness", "contrast", "sharpness"):
            values = [each[name] for each in measures]
            table = set_column(table, name, values, pa.float64())
        return task.replace(table if self.params.keep_pictures else table.drop_columns("picture"))
