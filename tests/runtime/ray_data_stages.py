"""Stages for the engine on Ray Data: in a module, since its workers import them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from strandline.plan.stage import Stage
from strandline.plan.task import Task


class Slow(Stage):
    """Takes a tenth of a second over every task."""

    def process(self, task: Task) -> Task:
        """The same task."""
        time.sleep(0.1)
        return task


class Trouble(Stage):
    """Kills its first worker, fails over the number 2, and ends its workers over 3."""

    class Params(Stage.Params):
        """Where it notes that it had a first worker."""

        marker: str

    params: Params

    def setup(self) -> None:
        """Never returns to the first worker."""
        try:
            Path(self.params.marker).touch(exist_ok=False)
        except FileExistsError:
            return
        os._exit(1)

    def process(self, task: Task) -> Task:
        """The same task, or trouble.

        Raises:
            ValueError: the number is 2.
        """
        if task.data == 2:
            msg = "two is no good"
            raise ValueError(msg)
        if task.data == 3:
            os._exit(1)
        return task
