"""Stages that yield large pieces and keep a log, for tests of answers in several parts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pydantic import Field

from strandline.engine.call.stage import stage_call
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task

PIECES_PER_PART = 2
PIECE = stage_call.PART_BYTES // PIECES_PER_PART


class LogParams(Stage.Params):
    """The log file."""

    log: str = Field(description="A file.")


def note(log: str, line: str) -> None:
    """Append a line atomically, because other processes append, too."""
    handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


class Pieces(Stage):
    """Yields large pieces of each number, and may die once or raise between two pieces."""

    class Params(LogParams):
        """The number of pieces, and the pieces at which the stage dies or raises."""

        count: int = Field(default=10, description="Pieces of each.")
        dies_at: int = Field(default=-1, description="Piece before which the first worker dies.")
        raises_at: int = Field(default=-1, description="Piece in whose place it raises.")
        raises_in: int = Field(default=-1, description="Number that raises; -1 for each.")
        seconds: float = Field(default=0.0, description="That a piece takes.")

    params: Params

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield bytes that begin with the number and end with the piece's number.

        Raises:
            ValueError: if the parameters request an error.
        """
        for piece in range(self.params.count):
            if piece == self.params.dies_at:
                self._die_once()
            if piece == self.params.raises_at and self.params.raises_in in {-1, task.data}:
                msg = "torn"
                raise ValueError(msg)
            time.sleep(self.params.seconds)
            note(self.params.log, f"made {task.data}-{piece}")
            yield Task(b"%d|" % task.data + bytes(PIECE) + b"|%d" % piece)

    def _die_once(self) -> None:
        try:
            Path(f"{self.params.log}.died").touch(exist_ok=False)
        except FileExistsError:
            return
        os._exit(1)


class Name(SinkStage):
    """Writes the name of its piece."""

    class Params(LogParams, SinkStage.Params):
        """The duration of a write, and the refused piece."""

        seconds: float = Field(default=0.0, description="That a piece takes.")
        refuses: int = Field(default=-1, description="Piece that it does not take.")

    params: Params
    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the number and the piece.

        Raises:
            ValueError: if the piece is refused.
        """
        number, _, piece = task.data.split(b"|")
        if int(piece) == self.params.refuses:
            msg = "refused"
            raise ValueError(msg)
        time.sleep(self.params.seconds)
        note(self.params.log, f"written {number.decode()}-{piece.decode()}")
        file.write(number + b"-" + piece)


class YieldLines(Stage):
    """Yields each line of a text in a separate part, and filters empty lines."""

    class Params(LogParams):
        """See `LogParams`."""

    params: Params

    def setup(self) -> None:
        """Make each task a separate part in this process."""
        stage_call.PART_TASKS = 1

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield a row per line, with the line number."""
        (content,) = task.table.column("content").to_pylist()
        for number, line in enumerate(content.decode().splitlines()):
            note(self.params.log, f"yielded {task.key} {number}")
            yield Task(pa.table({"line": [line], "number": [number]})) if line else None


class SeeLine(Stage):
    """Logs the number of each line."""

    class Params(LogParams):
        """See `LogParams`."""

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task."""
        note(self.params.log, f"seen {task.key} {task.table.column('number')[0]}")
        return task
