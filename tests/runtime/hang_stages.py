"""A stage that never returns for one source."""

from __future__ import annotations

import threading

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, NoneTask, Task


class Hang(Stage):
    """Passes all numbers on, but hangs at one number."""

    class Params(Stage.Params):
        """The number at which the stage hangs."""

        number: int = Field(default=3, description="Where it hangs.")

    params: Params

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Return the same tasks, unless the number is among them."""
        if any(task.data == self.params.number for task in tasks):
            threading.Event().wait()
        return list(tasks)
