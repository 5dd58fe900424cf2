"""A stage for pipelines that are in the middle of long calls when a stop is requested."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class Long(Stage):
    """Returns the first numbers immediately, and works for an hour on each other number.

    Long calls are logged when they begin.
    """

    class Params(Stage.Params):
        """How many numbers are quick, and how many seconds the other numbers take."""

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
