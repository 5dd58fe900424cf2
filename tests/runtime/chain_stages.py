"""Stages for chains on Ray: one that makes much of one source, one that naps, one that dies."""

from __future__ import annotations

import os
import time

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task


class Split(Stage):
    """Fans out into so many tasks."""

    class Params(Stage.Params):
        """How many."""

        count: int = Field(default=10, description="Tasks of a source.")

    params: Params

    def process(self, task: Task) -> list[Slot]:
        """A task a number."""
        return [Task([task.data, number]) for number in range(self.params.count)]


class Nap(Stage):
    """Takes its time, and says who took it."""

    class Params(Stage.Params):
        """How long."""

        seconds: float = Field(default=0.02, description="Of one task.")

    params: Params

    def process(self, task: Task) -> Task:
        """The same, with the process that it was in."""
        time.sleep(self.params.seconds)
        return task.replace([*task.data, os.getpid()])


class Die(Stage):
    """Takes its worker along with one task of the number 3, and with no other."""

    def process(self, task: Task) -> Task:
        """The same task."""
        if task.data[:2] == [3, 1]:
            os._exit(1)
        return task


class RestOnce(Stage):
    """Rests over the task of the number 0, and over no other."""

    class Params(Stage.Params):
        """How long."""

        seconds: float = Field(default=1.0, description="Of that task.")

    params: Params

    def process(self, task: Task) -> Task:
        """The same task."""
        number = task.data[0] if isinstance(task.data, list) else task.data
        time.sleep(self.params.seconds if number == 0 else 0.0)
        return task
