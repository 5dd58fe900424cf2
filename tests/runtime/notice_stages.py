"""Stages that log the start of each task, and return data too large for a receipt.

One stage makes prompts for a stage with its own server.
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
    """Logs the start of each number, and sleeps."""

    class Params(Stage.Params):
        """The log file, and the duration of a task."""

        log: str = Field(description="A file.")
        seconds: float = Field(default=0.0, description="Of each task.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the number with a large payload."""
        number = task.data if isinstance(task.data, int) else task.data[0]
        with Path(self.params.log).open("a", encoding="ascii") as file:
            file.write(f"{number}\n")
        time.sleep(self.params.seconds)
        return task.replace((number, b"1" * LARGE, ""))


class Parted(Stage):
    """Yields several numbers for each number, with a sleep before each."""

    class Params(Noted.Params):
        """The count of yielded numbers."""

        count: int = Field(default=10, description="For each number.")

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        """Yield numbers with large payloads."""
        for number in range(self.params.count):
            time.sleep(self.params.seconds)
            name = task.data * self.params.count + number
            with Path(self.params.log).open("a", encoding="ascii") as file:
                file.write(f"{name}\n")
            yield task.replace((name, b"1" * LARGE, ""))


class Prompts(Noted):
    """Makes a few prompts per number, which `fake_engine.py` answers after a second."""

    params: Noted.Params

    def process(self, task: Task) -> Task:
        """Return a table of prompts."""
        number, *_ = super().process(task).data
        return task.replace(pa.table({"text": [f"late {number} {row}" for row in range(3)]}))
