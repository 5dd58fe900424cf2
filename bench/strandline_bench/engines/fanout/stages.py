"""Stages that turn one task into many; workers import only this module of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.ground.memory import read_own_memory

PIECE_BYTES = 10_000_000


class One(SourceStage):
    """Lists one source."""

    def list_sources(self) -> Iterator[Source]:
        yield Source("one", "1", 0)


class Pieces(Stage):
    """Yields pieces of a task, and records the peak memory of its process."""

    class Params(Stage.Params):
        """Configures the number of pieces, and the file for the peak."""

        count: int
        note: str

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        most, begun = 0, read_own_memory()
        for number in range(self.params.count):
            yield task.replace(np.full(PIECE_BYTES, number % 251, np.uint8))
            most = max(most, read_own_memory() - begun)
        Path(self.params.note).write_text(str(most))


class PiecesAtOnce(Pieces):
    """Returns all pieces of a task as one list."""

    def process(self, task: Task) -> list[Task]:  # type: ignore[override]
        return list(super().process(task))


class Sums(SinkStage):
    """Writes a number for each piece."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(b"%d" % int(task.data[-1]))
