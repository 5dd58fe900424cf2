"""Stages that note each task that they begin, and hand on what is too large for a receipt.

One makes prompts of them, for a stage that asks a server of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

LARGE = 300_000


class Noted(Stage):
    """Leaves a line for each number that it begins, and takes its time."""

    class Params(Stage.Params):
        """Where, and how long."""

        log: str = Field(description="A file.")
        seconds: float = Field(default=0.0, description="Of each task.")

    params: Params

    def process(self, task: Task) -> Task:
        """The number, with something large beside it."""
        number = task.data if isinstance(task.data, int) else task.data[0]
        with Path(self.params.log).open("a", encoding="ascii") as file:
            file.write(f"{number}\n")
        time.sleep(self.params.seconds)
        return task.replace((number, b"1" * LARGE, ""))


class Parted(Stage):
    """Yields so many numbers for each that it is given, and takes its time for each of them."""

    class Params(Noted.Params):
        """How many."""

        count: int = Field(default=10, description="For each number.")

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        """Numbers, with something large beside each."""
        for number in range(self.params.count):
            time.sleep(self.params.seconds)
            name = task.data * self.params.count + number
            with Path(self.params.log).open("a", encoding="ascii") as file:
                file.write(f"{name}\n")
            yield task.replace((name, b"1" * LARGE, ""))


class Prompts(Noted):
    """Makes a few prompts of each number, which `fake_engine.py` answers after a second."""

    params: Noted.Params

    def process(self, task: Task) -> Task:
        """A table of them."""
        number, *_ = super().process(task).data
        return task.replace(pa.table({"text": [f"late {number} {row}" for row in range(3)]}))
