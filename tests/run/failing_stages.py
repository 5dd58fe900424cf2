"""Stages that fail on some rows, for runs that still process the other rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from strandline import FailedRow, Stage, StatefulFilter, Task
from strandline.plan.task import Slot

MENDED: set[str] = set()


class RefuseThrees(Stage):
    """Raises on each number that ends in three, until the stage is fixed."""

    def process(self, task: Task) -> Task:
        for number in task.table.column("n").to_pylist():
            if number % 10 == 3 and "threes" not in MENDED:
                raise ValueError(f"no {number}")
        self.count("borne", task.num_rows)
        return task


class RefuseTexts(Stage):
    """Raises on each text and includes the text in the message."""

    def process(self, task: Task) -> Task:
        raise ValueError(f"no text like {task.table['text'][0].as_py()}")


class MarkFives(Stage):
    """Marks each number that ends in five as failed, until the stage is fixed."""

    def process(self, task: Task) -> list[Slot]:
        numbers = task.table.column("n").to_pylist()
        bad = [row for row, number in enumerate(numbers) if number % 10 == 5]
        if "fives" in MENDED:
            bad = []
        good = [row for row in range(task.num_rows) if row not in bad]
        marks = [FailedRow(row, "ends in five") for row in bad]
        return [task.replace(task.table.take(good)), *marks]


class BreakOn(Stage):
    """Fails the whole task if the task contains the given number."""

    class Params(Stage.Params):
        """The number, or a negative value for no failure."""

        number: int = -1

    params: Params

    def process(self, task: Task) -> Task:
        if self.params.number in task.table.column("n").to_pylist():
            raise ValueError("broken")
        return task


class Total(StatefulFilter):
    """Adds up the numbers that pass."""

    def setup(self) -> None:
        self.total = 0

    def process(self, task: Task) -> Task:
        self.total += sum(task.table.column("n").to_pylist())
        return task

    def flush(self) -> bytes | None:
        total, self.total = self.total, 0
        return json.dumps(total).encode() if total else None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        out.write_text(json.dumps(sum(json.loads(path.read_bytes()) for path in paths)))


class OpenFile(Stage):
    """Reads a file as bytes."""

    def process(self, task: Task) -> Task:
        return task.replace(Path(task.table["path"][0].as_py()).read_bytes())


class Decode(Stage):
    """Decodes bytes to text once the stage is fixed, and raises before that."""

    def process(self, task: Task) -> Task:
        if "decode" not in MENDED:
            raise UnicodeError("not yet")
        return task.replace(pa.table({"text": [task.data.decode()]}))
