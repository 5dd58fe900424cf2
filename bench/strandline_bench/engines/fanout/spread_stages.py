"""Stages that make very many uneven tasks of one source: a worker loads this, and no more."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task

RARE = 100  # a task in so many takes so many times as long


class Naps(Stage):
    """Makes naps of a task, of which one in a hundred is a hundred times longer."""

    class Params(Stage.Params):
        """How many, and how long the others are."""

        count: int
        seconds: float

    params: Params

    def process(self, task: Task) -> list[Slot]:
        short, count = self.params.seconds, self.params.count
        return [
            task.replace(short * (RARE if number % RARE == RARE // 2 else 1))
            for number in range(count)
        ]


class Nap(Stage):
    """Takes a nap, and notes when it began and ended, in a file of its process; nothing is left."""

    class Params(Stage.Params):
        """Where the notes go."""

        folder: str

    params: Params

    def process(self, task: Task) -> None:
        begun = time.monotonic()
        time.sleep(task.data)
        with Path(self.params.folder, str(os.getpid())).open("a") as notes:
            notes.write(f"{begun} {time.monotonic()}\n")


class Count(SinkStage):
    """A sink to which nothing comes."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(b"%f" % task.data)
