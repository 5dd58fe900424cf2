"""Stages that split one source into very many uneven tasks; workers import only this module."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task

RARE = 100  # every hundredth task takes a hundred times as long


class Naps(Stage):
    """Splits a task into sleeps, of which one in a hundred is a hundred times longer."""

    class Params(Stage.Params):
        """Configures the number of sleeps, and the normal duration in seconds."""

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
    """Sleeps, and logs start and end in a file per process. Returns no tasks."""

    class Params(Stage.Params):
        """Configures the folder of the log files."""

        folder: str

    params: Params

    def process(self, task: Task) -> None:
        begun = time.monotonic()
        time.sleep(task.data)
        with Path(self.params.folder, str(os.getpid())).open("a") as notes:
            notes.write(f"{begun} {time.monotonic()}\n")


class Count(SinkStage):
    """A sink that receives no tasks."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(b"%f" % task.data)
