"""The stage `resize-images`: limits the size of pictures."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.pictures import PICTURE, shrink


class ResizeImages(Stage):
    """Shrinks each `picture` above the limit and keeps its proportions; others stay unchanged."""

    class Params(Stage.Params):
        """Configures the maximum size of a picture."""

        longest: int = Field(
            default=256, ge=1, description="Maximum length of the longer side in pixels."
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("picture",)

    def process(self, task: Task) -> Task:
        """Shrink every picture.

        Raises:
            MissingColumnError: the table has no pictures.
        """
        pictures = find_column(task.table, "picture").to_pylist()
        shrunk = [shrink(picture, self.params.longest) for picture in pictures]
        return task.replace(set_column(task.table, "picture", shrunk, PICTURE))
