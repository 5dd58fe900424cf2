"""Stages for chains on Ray: some fan out, sleep, or kill their worker."""

from __future__ import annotations

import os
import time

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task


class Split(Stage):
    """Fans out into `count` tasks."""

    class Params(Stage.Params):
        """The number of tasks."""

        count: int = Field(default=10, description="Tasks of a source.")

    params: Params

    def process(self, task: Task) -> list[Slot]:
        """Return one task per number."""
        return [Task([task.data, number]) for number in range(self.params.count)]


class Nap(Stage):
    """Sleeps, and adds its process id to the data."""

    class Params(Stage.Params):
        """The duration."""

        seconds: float = Field(default=0.02, description="Of one task.")

    params: Params

    def process(self, task: Task) -> Task:
        """Sleep, then add the process id."""
        time.sleep(self.params.seconds)
        return task.replace([*task.data, os.getpid()])


class Die(Stage):
    """Kills its worker at the second task of source 3."""

    def process(self, task: Task) -> Task:
        """Return the same task."""
        if task.data[:2] == [3, 1]:
            os._exit(1)
        return task


class RestOnce(Stage):
    """Sleeps only during the task with number 0."""

    class Params(Stage.Params):
        """The duration."""

        seconds: float = Field(default=1.0, description="Of that task.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task."""
        number = task.data[0] if isinstance(task.data, list) else task.data
        time.sleep(self.params.seconds if number == 0 else 0.0)
        return task
