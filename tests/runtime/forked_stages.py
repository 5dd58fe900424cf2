"""Stages for tests of forked workers: they wait, or end their process as they are told."""

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


class Random(Stage):
    """Hands on numbers that global generators draw, once both workers have drawn theirs."""

    class Params(Stage.Params):
        """Where the workers wait for each other."""

        folder: str

    params: Params

    def setup(self) -> None:
        """Draw."""
        folder = Path(self.params.folder)
        self._drawn = [random.random(), float(np.random.random())]  # noqa: NPY002 - the global one
        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.01)

    def process(self, task: Task) -> Task:
        """The process and its numbers."""
        return task.replace([os.getpid(), *self._drawn])


class StoppedWhileSending(Stage):
    """Hands on a large table, and has its process stopped as that is sent, the first time."""

    class Params(Stage.Params):
        """A file that is made the first time, and the size of the table."""

        mark: str
        size: int = 200_000_000

    params: Params

    def process(self, task: Task) -> Task:
        """A large payload, for the number 3."""
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
    """Yields the number without an end, and logs each hundred times."""

    class Params(Stage.Params):
        """Where it logs."""

        log: str

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        """The number again and again."""
        while True:
            with Path(self.params.log).open("a") as log:
                log.write("a hundred\n")
            for _ in range(100):
                yield task.replace(task.data)


class HangingOnce(Stage):
    """Hangs at a number, until the others are done."""

    class Params(Stage.Params):
        """Where each number is noted, and how many there are."""

        folder: str
        count: int

    params: Params

    def process(self, task: Task) -> Task:
        """The same task."""
        folder = Path(self.params.folder)
        # A worker is given a second call once its tasks have been quick.
        if task.data == self.params.count // 2:
            while len(list(folder.iterdir())) < self.params.count - 1:
                time.sleep(0.05)
        (folder / str(task.data)).touch()
        return task


class WaitingForOthers(Stage):
    """Waits at a number, until all other numbers are written."""

    class Params(Stage.Params):
        """The number, how many there are, where they are written, and seconds to wait at most."""

        number: int
        count: int
        folder: str
        seconds: float = 90.0

    params: Params

    def process(self, task: Task) -> Task:
        """The same task.

        Raises:
            TimeoutError: the others are not written.
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
    """The same, of a stage that yields."""

    def process(self, task: Task) -> Iterator[Task]:  # type: ignore[override]
        """The same task."""
        yield super().process(task)
