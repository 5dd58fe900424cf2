"""The stage `filter-video`: clips whose measures are within bounds."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field, field_validator

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column, keep_rows

_DEFAULT: dict[str, tuple[float | None, float | None]] = {
    "brightness": (0.05, 0.98),
    "black_share": (None, 0.5),
    "frozen_share": (None, 0.9),
}


@register("filter-video")
class FilterVideo(Stage):
    """Keeps rows whose measures are within bounds. A row is counted under the first it breaks."""

    class Params(Stage.Params):
        """The bounds."""

        bounds: dict[str, tuple[float | None, float | None]] = Field(
            default=_DEFAULT,
            min_length=1,
            description="The least and the greatest value of columns of numbers, in the order in "
            "which they are looked at; null: no bound. Rows without a value are dropped.",
        )

        @field_validator("bounds")
        @classmethod
        def _check(
            cls, bounds: dict[str, tuple[float | None, float | None]]
        ) -> dict[str, tuple[float | None, float | None]]:
            for name, (least, greatest) in bounds.items():
                if least is not None and greatest is not None and least > greatest:
                    msg = f"{name}: the least value, {least:g}, is above the greatest, {greatest:g}"
                    raise ValueError(msg)
            return bounds

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return tuple(self.params.bounds)

    def process(self, task: Task) -> Task | None:
        """Drop and count the rows out of bounds.

        Raises:
            MissingColumnError: a measure is not there.
        """
        columns = {name: find_column(task.table, name).to_pylist() for name in self.params.bounds}
        mask = [
            self._is_kept({name: values[at] for name, values in columns.items()})
            for at in range(task.num_rows)
        ]
        return keep_rows(task, task.table, mask)

    def _is_kept(self, measures: dict[str, Any]) -> bool:
        for name, (least, greatest) in self.params.bounds.items():
            value = measures[name]
            if value is None or math.isnan(value):
                reason = f"no {name}"
            elif least is not None and value < least:
                reason = f"{name} below {least:g}"
            elif greatest is not None and value > greatest:
                reason = f"{name} above {greatest:g}"
            else:
                continue
            self.count(f"dropped: {reason}")
            return False
        return True
