"""Stages of a pipeline that is full of long calls when the stop is requested."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class Long(Stage):
    """Returns the first numbers at once, and works for an hour on the others.

    Long calls are logged when they begin.
    """

    class Params(Stage.Params):
        """The count of quick numbers, and the duration of the others."""

        quick: int = Field(default=8, description="Numbers that take no time.")
        seconds: float = Field(default=3600.0, description="Of each of the others.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task."""
        if task.data >= self.params.quick:
            with Path(os.environ["OPENED_LOG"]).open("a") as log:
                log.write(f"{task.key}\n")
            time.sleep(self.params.seconds)
        return task
