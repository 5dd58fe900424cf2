"""Stages of the conformance scenarios: they fan out, filter, group, gather, and fail."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.plan.stages.ends import Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, NoneTask, Slot, Task

ROWS_PER_TASK = 10
HALF = 12
DIES_ONCE, HANGS, DIES, RAISES, FAILS = 0, 3, 5, 7, 8


class ListedFiles(SourceStage):
    """Lists files by name, including missing files."""

    class Params(SourceStage.Params):
        """The files."""

        folder: str = Field(description="Folder of the files.")
        names: tuple[str, ...] = Field(description="Names of the files.")

    params: Params

    def list_sources(self) -> Iterator[Source]:
        for name in self.params.names:
            yield Source(name, "1", str(Path(self.params.folder, name)))


class CutNumbers(Stage):
    """Cuts the numbers of a JSON file into tasks of ten rows and drops every seventh task."""

    def process(self, task: Task) -> list[Slot]:
        numbers = json.loads(Path(task.data).read_text())
        tasks: list[Slot] = []
        for place, start in enumerate(range(0, len(numbers), ROWS_PER_TASK)):
            chosen = numbers[start : start + ROWS_PER_TASK]
            lines = ["x" * (number % 17) for number in chosen]
            table = pa.table({"n": pa.array(chosen, pa.int64()), "line": lines})
            tasks.append(None if place % 7 == 5 else task.replace(table))
        return tasks


class RejectThrees(Stage):
    """Raises for each number that ends in three."""

    def process(self, task: Task) -> Task:
        if any(number % 10 == 3 for number in task.table["n"].to_pylist()):
            raise ValueError("three")
        return task


class RejectSeventy(Stage):
    """Raises for the number 70 if tasks are in a group."""

    def process(self, task: Task) -> Task:
        if 70 in task.table["n"].to_pylist():
            raise ValueError("seventy")
        return task


class Halve(Stage):
    """Cuts a joined table into tasks of twelve rows."""

    def process(self, task: Task) -> list[Slot]:
        table = task.table
        return [task.replace(table.slice(at, HALF)) for at in range(0, table.num_rows, HALF)]


class Under(Stage):
    """Keeps numbers below a limit."""

    class Params(Stage.Params):
        """The limit."""

        limit: int = Field(description="Numbers below it stay.")

    params: Params

    def process(self, task: Task) -> Task:
        numbers = task.table["n"].to_pylist()
        kept = [number for number in numbers if number < self.params.limit]
        return task.replace(pa.table({"n": pa.array(kept, pa.int64())}))


class Times(Stage):
    """Adds a column with a multiple of each number."""

    class Params(Stage.Params):
        """The factor."""

        by: int = Field(description="The factor.")

    params: Params
    keeps_columns = True
    adds_columns = ("times",)
    only_adds = True

    def process(self, task: Task) -> Task:
        times = [number * self.params.by for number in task.table["n"].to_pylist()]
        return task.replace(task.table.append_column("times", pa.array(times, pa.int64())))


class MakeRow(Stage):
    """Makes a table of one row from a number."""

    def process(self, task: Task) -> Task:
        return task.replace(pa.table({"number": [task.data]}))


class Thrice(Stage):
    """Fans a number n out into three slots. The first n slots are filled."""

    def process(self, task: Task) -> list[Slot]:
        return [Task([slot]) if slot < task.data else None for slot in range(3)]


class Widen(Stage):
    """Joins a group, and fans out into four tasks that contain the group's members."""

    def join(self, tasks: list[Task]) -> Task:
        return Task([number for task in tasks for number in task.data])

    def process(self, task: Task) -> list[Task]:
        return [Task([(*task.data, slot)]) for slot in range(4)]


class Pair(Stage):
    """Joins a group, and returns the members unchanged."""

    def join(self, tasks: list[Task]) -> Task:
        return Task([member for task in tasks for member in task.data])

    def process(self, task: Task) -> Task:
        return task


class FillArray(Stage):
    """Replaces the payload with a small or large array, and moves the payload to `meta`."""

    def process(self, task: Task) -> Task:
        last = task.data[-1][-1]
        return Task(np.full(100_000 if last == 1 else 3, last), {"members": task.data})


class ChangeArray(Stage):
    """Reports the members, the first element, and whether the array can be changed."""

    def process(self, task: Task) -> Task:
        members = (task.meta or {})["members"]
        try:
            task.data += 1
        except ValueError:
            return task.replace([members, int(task.data[0]), "read-only"])
        return task.replace([members, int(task.data[0]), "changed"])


class Casualties(Stage):
    """Hangs, ends its process, or raises, depending on the number.

    The first worker fails in setup, and the second worker ends at the number 0.
    """

    class Params(Stage.Params):
        """Folder in which workers record their calls."""

        folder: str = Field(description="A folder.")

    params: Params

    def setup(self) -> None:
        """Record that a worker was set up.

        Raises:
            RuntimeError: if this is the first worker.
        """
        if _mark(self.params.folder, "set-up"):
            msg = "not yet"
            raise RuntimeError(msg)

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Return the tasks.

        Raises:
            ValueError: if a number is 7.
        """
        numbers = {task.data for task in tasks}
        if DIES_ONCE in numbers and _mark(self.params.folder, "ended"):
            os._exit(1)
        if HANGS in numbers:
            threading.Event().wait()
        if DIES in numbers:
            os._exit(1)
        if RAISES in numbers:
            msg = "seven"
            raise ValueError(msg)
        return [FailedTask("eight") if task.data == FAILS else task for task in tasks]


def _mark(folder: str, name: str) -> bool:
    """Create a file. Return False if the file exists already."""
    try:
        Path(folder, name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
