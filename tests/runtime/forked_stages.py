"""Stages for tests of forked workers: they wait, or end their process as they are told."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from strandline.plan.stage import Stage
from strandline.plan.task import Task


class Waiting(Stage):
    """Leaves its process's number in a folder, and then waits until it is killed."""

    class Params(Stage.Params):
        """Where to leave it."""

        folder: str

    params: Params

    def process(self, task: Task) -> Task:
        """Never returns."""
        Path(self.params.folder, str(os.getpid())).touch()
        time.sleep(600)
        return task


class Signalled(Stage):
    """Ends its process by a signal with the number 3, and hands the others on."""

    class Params(Stage.Params):
        """The signal."""

        number: int = int(signal.SIGKILL)

    params: Params

    def process(self, task: Task) -> Task:
        """The same task, but for the number 3."""
        if task.data == 3:
            os.kill(os.getpid(), self.params.number)
            time.sleep(600)
        return task


class Inside(Stage):
    """Hands on the number of its process, and that of its parent."""

    def process(self, task: Task) -> Task:
        """Both numbers."""
        return task.replace([os.getpid(), os.getppid()])


class Printing(Stage):
    """Prints each number, and hands it on."""

    def process(self, task: Task) -> Task:
        """The same task."""
        print(f"number {task.data}")
        os.write(1, b"raw\n")
        return task
