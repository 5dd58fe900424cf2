"""Stages that behave badly on purpose, for engines that must live with it."""

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
        """How many."""

        count: int = Field(default=10, description="How many sources.")
        repeat: int = Field(default=1, description="How often each is listed.")

    params: Params

    def list_sources(self) -> Iterator[Source]:
        """One source a number."""
        for _ in range(self.params.repeat):
            for number in range(self.params.count):
                yield Source(f"number-{number}", "1", number)


class Identity(Stage):
    """Hands every task on."""

    def process(self, task: Task) -> Task:
        """The same task."""
        return task


class Spread(Stage):
    """Fans a number n out into n tasks, odd ones filtered."""

    def process(self, task: Task) -> list[Slot]:
        """Tasks for the even numbers below n."""
        return [Task(i) if i % 2 == 0 else None for i in range(int(task.data))]


class Picky(Stage):
    """Does what it is told with the number 3, and hands the others on."""

    class Params(Stage.Params):
        """What to do with the number 3."""

        what: str = "raise"

    params: Params

    def process(self, task: Task) -> Task | list[Slot]:
        """The same task, or trouble.

        Raises:
            ValueError: the number is 3 and that is asked for.
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
    """Kills its worker whatever it is given."""

    def process(self, task: Task) -> Task:
        """Never returns."""
        os._exit(1)


class Unprepared(Stage):
    """Can't be set up."""

    def setup(self) -> None:
        """Never returns.

        Raises:
            FileNotFoundError: always.
        """
        msg = "no model"
        raise FileNotFoundError(msg)

    def process(self, task: Task) -> Task:
        """The same task."""
        return task


class Unpacked(Stage):
    """Needs a package that nobody has."""

    def setup(self) -> None:
        """Never returns."""
        importlib.import_module("a_package_that_nobody_has")

    def process(self, task: Task) -> Task:
        """The same task."""
        return task


class ShortBatch(Stage):
    """Answers a batch with one answer too few."""

    def process_batch(self, tasks: list[Task]) -> list[Task]:  # type: ignore[override]
        """All but the last."""
        return tasks[:-1]


class TextSink(SinkStage):
    """Writes the data as text."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """The data's text."""
        file.write(str(task.data).encode())
