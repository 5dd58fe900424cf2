"""Stages that misbehave on purpose, to test how engines handle errors."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from pydantic import Field

from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Slot, Task


class Numbers(SourceStage):
    """Lists the numbers below `count`."""

    class Params(SourceStage.Params):
        """The number of sources, and how often they are listed."""

        count: int = Field(default=10, description="How many sources.")
        repeat: int = Field(default=1, description="How often each is listed.")

    params: Params

    def list_sources(self) -> Iterator[Source]:
        """Yield one source per number."""
        for _ in range(self.params.repeat):
            for number in range(self.params.count):
                yield Source(f"number-{number}", "1", number)


class Identity(Stage):
    """Passes every task on."""

    def process(self, task: Task) -> Task:
        """Return the same task."""
        return task


class Spread(Stage):
    """Fans a number n out into n tasks. Tasks with odd numbers are filtered."""

    def process(self, task: Task) -> list[Slot]:
        """Return tasks for the even numbers below n."""
        return [Task(i) if i % 2 == 0 else None for i in range(int(task.data))]


class Picky(Stage):
    """Misbehaves as configured on the number 3, and passes other numbers on."""

    class Params(Stage.Params):
        """The behavior on the number 3."""

        what: str = "raise"

    params: Params

    def process(self, task: Task) -> Task | list[Slot]:
        """Return the same task, or misbehave.

        Raises:
            ValueError: if the number is 3 and `what` is "raise".
        """
        if task.data == 3 and self.params.what == "raise":
            msg = "three is no good"
            raise ValueError(msg)
        if task.data == 3 and self.params.what == "fail":
            return [FailedTask("three is no good")]
        if task.data == 3 and self.params.what == "die":
            os._exit(1)
        return task


class Deadly(Stage):
    """Kills its worker on any task."""

    def process(self, task: Task) -> Task:
        """End the process."""
        os._exit(1)


class Unprepared(Stage):
    """Fails during setup."""

    def setup(self) -> None:
        """Fail.

        Raises:
            FileNotFoundError: always.
        """
        msg = "no model"
        raise FileNotFoundError(msg)

    def process(self, task: Task) -> Task:
        """Return the same task."""
        return task


class Unpacked(Stage):
    """Needs a package that does not exist."""

    def setup(self) -> None:
        """Fail to import."""
        importlib.import_module("a_package_that_nobody_has")

    def process(self, task: Task) -> Task:
        """Return the same task."""
        return task


class ShortBatch(Stage):
    """Returns one answer too few for a batch."""

    def process_batch(self, tasks: list[Task]) -> list[Task]:  # type: ignore[override]
        """Return all tasks except the last."""
        return tasks[:-1]


class TextSink(SinkStage):
    """Writes the data as text."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the data as text."""
        file.write(str(task.data).encode())
