"""A stage that never answers for one source."""

from __future__ import annotations

import threading

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, NoneTask, Task


class Hang(Stage):
    """Hands all on but one number, at which it hangs."""

    class Params(Stage.Params):
        """Which number."""

        number: int = Field(default=3, description="Where it hangs.")

    params: Params

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """The same tasks, if it answers at all."""
        if any(task.data == self.params.number for task in tasks):
            threading.Event().wait()
        return list(tasks)
