"""Stages for tests of forked workers, which wait or end their process on request."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.random  # loaded before the fork

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class Waiting(Stage):
    """Leaves its process id in a folder, then waits until the process is killed."""

    class Params(Stage.Params):
        """The folder for process ids."""

        folder: str

    params: Params

    def process(self, task: Task) -> Task:
        """Wait for the kill."""
        Path(self.params.folder, str(os.getpid())).touch()
        time.sleep(600)
        return task


class Signalled(Stage):
    """Ends its process with a signal at the number 3, and passes other numbers on."""

    class Params(Stage.Params):
        """The signal."""

        number: int = int(signal.SIGKILL)

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task, except for the number 3."""
        if task.data == 3:
            os.kill(os.getpid(), self.params.number)
            time.sleep(600)
        return task


class Inside(Stage):
    """Returns the ids of its own process and of the parent process."""

    def process(self, task: Task) -> Task:
        """Return both ids."""
        return task.replace([os.getpid(), os.getppid()])


class Printing(Stage):
    """Prints each number, and passes it on."""

    def process(self, task: Task) -> Task:
        """Return the same task."""
        print(f"number {task.data}")
        os.write(1, b"raw\n")
        return task


class Random(Stage):
    """Returns random numbers of global generators, after both workers have drawn some."""

    class Params(Stage.Params):
        """The folder where the workers wait for each other."""

        folder: str

    params: Params

    def setup(self) -> None:
        """Draw numbers, and wait for the other worker."""
        folder = Path(self.params.folder)
        self._drawn = [random.random(), float(np.random.random())]  # noqa: NPY002 - the global one
        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.01)

    def process(self, task: Task) -> Task:
        """Return the process id and the drawn numbers."""
        return task.replace([os.getpid(), *self._drawn])


class StoppedWhileSending(Stage):
    """Returns a large table, and stops its process once while the table is sent."""

    class Params(Stage.Params):
        """A marker file for the first call, and the size of the table."""

        mark: str
        size: int = 200_000_000

    params: Params

    def process(self, task: Task) -> Task:
        """Return a large payload for the number 3."""
        mark = Path(self.params.mark)
        if task.data != 3 or mark.exists():
            return task
        mark.touch()
        threading.Thread(target=self._stop, daemon=True).start()
        return task.replace(np.zeros(self.params.size, "u1"))

    def _stop(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while True:
            names = [frame.name for frame in traceback.extract_stack(sys._current_frames()[main])]
            if "_send_bytes" in names or names[-1] == "send":
                os.kill(os.getpid(), signal.SIGSTOP)
                return


class Endless(Stage):
    """Yields its number without end, and logs every hundredth yield."""

    class Params(Stage.Params):
        """The log file."""

        log: str

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        """Yield the number repeatedly."""
        while True:
            with Path(self.params.log).open("a") as log:
                log.write("a hundred\n")
            for _ in range(100):
                yield task.replace(task.data)


class HangingOnce(Stage):
    """Hangs at one number until all other numbers have finished."""

    class Params(Stage.Params):
        """The folder for finished numbers, and how many numbers there are."""

        folder: str
        count: int

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task."""
        folder = Path(self.params.folder)
        # The middle number arrives when workers get a second call, after several quick tasks.
        if task.data == self.params.count // 2:
            while len(list(folder.iterdir())) < self.params.count - 1:
                time.sleep(0.05)
        (folder / str(task.data)).touch()
        return task


class WaitingForOthers(Stage):
    """Waits at one number until all other numbers are written."""

    class Params(Stage.Params):
        """The number, the count of all numbers, their output folder, and the timeout in seconds."""

        number: int
        count: int
        folder: str
        seconds: float = 90.0

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task.

        Raises:
            TimeoutError: if the other numbers are not written in time.
        """
        until = time.monotonic() + self.params.seconds
        while task.data == self.params.number and not self._are_others_written():
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(0.2)
        return task

    def _are_others_written(self) -> bool:
        written = len(list(Path(self.params.folder).rglob("*.txt")))
        return written == self.params.count - 1


class YieldingForOthers(WaitingForOthers):
    """`WaitingForOthers` as a stage that yields."""

    def process(self, task: Task) -> Iterator[Task]:  # type: ignore[override]
        """Yield the same task."""
        yield super().process(task)
