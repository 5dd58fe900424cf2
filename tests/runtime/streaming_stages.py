"""Stages that yield large pieces and keep a log, for tests of answers that travel in parts."""

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
    """Where the log is."""

    log: str = Field(description="A file.")


def note(log: str, line: str) -> None:
    """Append a line, whoever else does."""
    handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


class Pieces(Stage):
    """Yields large pieces of each number, and may die once, or raise, in the middle of it."""

    class Params(LogParams):
        """How many."""

        count: int = Field(default=10, description="Pieces of each.")
        dies_at: int = Field(default=-1, description="Piece before which the first worker dies.")
        raises_at: int = Field(default=-1, description="Piece in whose place it raises.")
        raises_in: int = Field(default=-1, description="Number that raises; -1 for each.")
        seconds: float = Field(default=0.0, description="That a piece takes.")

    params: Params

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield bytes that begin with the number and end with that of the piece.

        Raises:
            ValueError: it is asked for.
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
    """Writes which piece it was given."""

    class Params(LogParams, SinkStage.Params):
        """How long it takes, and what it does not take."""

        seconds: float = Field(default=0.0, description="That a piece takes.")
        refuses: int = Field(default=-1, description="Piece that it does not take.")

    params: Params
    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the number and the piece.

        Raises:
            ValueError: it is one that is refused.
        """
        number, _, piece = task.data.split(b"|")
        if int(piece) == self.params.refuses:
            msg = "refused"
            raise ValueError(msg)
        time.sleep(self.params.seconds)
        note(self.params.log, f"written {number.decode()}-{piece.decode()}")
        file.write(number + b"-" + piece)


class YieldLines(Stage):
    """Yields the lines of a text, each as a part of its own; empty ones are filtered."""

    class Params(LogParams):
        """As `LogParams`."""

    params: Params

    def setup(self) -> None:
        """Have each task travel on by itself, in this process."""
        stage_call.PART_TASKS = 1

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield a row a line, under the number of the line."""
        (content,) = task.table.column("content").to_pylist()
        for number, line in enumerate(content.decode().splitlines()):
            note(self.params.log, f"yielded {task.key} {number}")
            yield Task(pa.table({"line": [line], "number": [number]})) if line else None


class SeeLine(Stage):
    """Notes which line it was given."""

    class Params(LogParams):
        """As `LogParams`."""

    params: Params

    def process(self, task: Task) -> Task:
        """Hand it on."""
        note(self.params.log, f"seen {task.key} {task.table.column('number')[0]}")
        return task
