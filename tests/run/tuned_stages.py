"""Stages with one parameter each, for pipelines that change between runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from failing_stages import MENDED, Total
from strandline import Source, SourceStage, Stage, Task
from strandline.plan.task import Slot

BROKEN: set[object] = set()

__all__ = [
    "BROKEN",
    "Add",
    "DieOn",
    "Double",
    "DropMultiples",
    "Halves",
    "Join",
    "KeepBelow",
    "Label",
    "Load",
    "Oddity",
    "Offsets",
    "OpenNumbers",
    "Part",
    "Refuse",
    "RefuseOn",
    "Schema",
    "Shout",
    "Square",
    "Times",
    "Total",
    "Types",
    "Unwrap",
    "Wrap",
]


class Add(Stage):
    """Adds a number to each number, and records the addition in the metadata."""

    class Params(Stage.Params):
        """The number to add."""

        by: int = 1

    params: Params

    def process(self, task: Task) -> Task:
        table = task.table
        numbers = [number + self.params.by for number in table["n"].to_pylist()]
        at = table.column_names.index("n")
        added = table.set_column(at, "n", pa.array(numbers, pa.int64()))
        return Task(added, {"added": self.params.by}, task.lineage)


class KeepBelow(Stage):
    """Keeps the numbers below a limit."""

    class Params(Stage.Params):
        """The limit."""

        limit: int = 100

    params: Params

    def process(self, task: Task) -> Task:
        numbers = task.table["n"].to_pylist()
        rows = [row for row, number in enumerate(numbers) if number < self.params.limit]
        return task.replace(task.table.take(pa.array(rows, pa.int64())))


class Part(Stage):
    """Splits a table into tables of `rows` rows."""

    class Params(Stage.Params):
        """The number of rows per table."""

        rows: int = 3

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        for begin in range(0, task.num_rows, self.params.rows):
            yield task.replace(task.table.slice(begin, self.params.rows))


class Refuse(Stage):
    """Passes all rows on, but raises for numbers in `BROKEN`."""

    class Params(Stage.Params):
        """Any number."""

        by: int = 0

    params: Params

    def process(self, task: Task) -> Task:
        if BROKEN.intersection(task.table["n"].to_pylist()) or "all" in BROKEN:
            raise ValueError("broken")
        return task


class Oddity(Stage):
    """Returns data that cannot be written to a file."""

    def process(self, task: Task) -> Task:
        return task.replace({"n": object})


class Wrap(Stage):
    """Wraps a table in data that cannot be written to a file."""

    def process(self, task: Task) -> Task:
        return task.replace({"table": task.table})


class Unwrap(Stage):
    """Unwraps the table that `Wrap` has wrapped."""

    def process(self, task: Task) -> Task:
        return task.replace(task.data["table"])


class Shout(Stage):
    """Makes a table of text, optionally in capitals."""

    class Params(Stage.Params):
        """Whether to convert the text to capitals."""

        upper: bool = False

    params: Params

    def process(self, task: Task) -> Task:
        text = task.data.decode() if isinstance(task.data, bytes) else str(task.data)
        return task.replace(pa.table({"text": [text.upper() if self.params.upper else text]}))


class Square(Stage):
    """Adds a column with the square of each number."""

    keeps_columns = True
    adds_columns = ("square",)

    def process(self, task: Task) -> Task:
        squares = [number * number for number in task.table["n"].to_pylist()]
        return task.replace(task.table.append_column("square", pa.array(squares)))


class Label(Stage):
    """Adds a label to each number."""

    keeps_columns = True
    adds_columns = ("label",)

    def process(self, task: Task) -> Task:
        labels = [["ab"[number % 2] for number in task.table["n"].to_pylist()]]
        return task.replace(task.table.append_column("label", labels))


class Times(Stage):
    """Adds a column with a multiple of each number."""

    class Params(Stage.Params):
        """The factor, and the column's name."""

        by: int = 2
        name: str = "times"
        notes: dict[str, int] = Field(default_factory=dict)

    params: Params
    keeps_columns = True
    only_adds = True

    def list_added(self) -> tuple[str, ...]:
        return (self.params.name,)

    def process(self, task: Task) -> Task:
        numbers = task.table["n"].to_pylist()
        if BROKEN.intersection(numbers):
            raise ValueError("broken")
        times = pa.array([number * self.params.by for number in numbers], pa.int64())
        return task.replace(task.table.append_column(self.params.name, times))


class Types(Stage):
    """Adds columns with types that Parquet stores differently."""

    keeps_columns = True

    def process(self, task: Task) -> Task:
        numbers, table = task.table["n"].to_pylist(), task.table
        lists = [[number] for number in numbers]
        for kind, values in {
            pa.timestamp("s"): numbers,
            pa.list_(pa.timestamp("s")): lists,
            pa.large_list(pa.int8()): lists,
        }.items():
            table = table.append_column(str(kind), pa.array(values, kind))
        return task.replace(table)


class Schema(Stage):
    """Adds a column with the types of the table."""

    class Params(Stage.Params):
        """A prefix for the types."""

        word: str = ""

    params: Params
    keeps_columns = True
    adds_columns = ("schema",)
    only_adds = True

    def process(self, task: Task) -> Task:
        schema = f"{self.params.word}{task.table.schema}"
        return task.replace(task.table.append_column("schema", [[schema] * task.num_rows]))


class Double(Stage):
    """Returns each row twice."""

    keeps_columns = True

    def process(self, task: Task) -> Task:
        return task.replace(pa.concat_tables([task.table, task.table]))


class Offsets(SourceStage):
    """Lists one source of numbers, with an offset for the numbers in its metadata."""

    def list_sources(self) -> Iterator[Source]:
        yield Source("numbers", "1", [0, 1, 2], {"offset": 100})


class Load(Stage):
    """Makes a table of a source's numbers."""

    def process(self, task: Task) -> Task:
        offset = (task.meta or {"offset": 0})["offset"]
        return task.replace(pa.table({"n": [number + offset for number in task.data]}))


class Halves(Stage):
    """Splits a table into tables of two rows, and drops those that begin with a multiple."""

    class Params(Stage.Params):
        """The divisor: tables whose first number is a multiple are dropped."""

        by: int = 3

    params: Params

    def process(self, task: Task) -> list[Slot]:
        parts = [task.table.slice(begin, 2) for begin in range(0, task.num_rows, 2)]
        numbers = [part["n"][0].as_py() for part in parts]
        return [
            task.replace(part) if number % self.params.by else None
            for part, number in zip(parts, numbers, strict=True)
        ]


class OpenNumbers(Stage):
    """Reads a file of numbers as one table."""

    def process(self, task: Task) -> Task:
        lines = Path(task.table["path"][0].as_py()).read_text().splitlines()
        return task.replace(pa.table({"n": [json.loads(line)["n"] for line in lines]}))


class DropMultiples(Stage):
    """Drops tables whose first number is a multiple."""

    class Params(Stage.Params):
        """The divisor of the dropped numbers."""

        of: int = 5

    params: Params

    def process(self, task: Task) -> Task | None:
        front = task.table["n"].to_pylist()[:1]
        return task if front and front[0] % self.params.of else None


class DieOn(Stage):
    """Fails on tables whose first number is a multiple, until the stage is fixed."""

    class Params(Stage.Params):
        """The divisor of the failing numbers."""

        of: int = 4

    params: Params
    mixes_rows = True

    def process(self, task: Task) -> Task:
        front = task.table["n"].to_pylist()[:1]
        if front and front[0] % self.params.of == 0 and "die" not in MENDED:
            raise ValueError("broken")
        return task


class RefuseOn(Stage):
    """Fails on tables that contain the given number."""

    class Params(Stage.Params):
        """The number."""

        number: int = 0

    params: Params

    def process(self, task: Task) -> Task:
        if self.params.number in task.table["n"].to_pylist():
            raise ValueError("broken")
        return task


class Join(Stage):
    """Joins the numbers of a group into one row of text."""

    def process(self, task: Task) -> Task:
        numbers = " ".join(map(str, task.table["n"].to_pylist()))
        return task.replace(pa.table({"n": [numbers]}))
