"""Reading a cut, as tasks for the stage behind it.

A worker loads it, so it must not know ledgers or runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from strandline.engine.call.stage.cuts import read_task
from strandline.plan.stage import Stage
from strandline.plan.task import FailedTask, Slot, Task
from strandline.stages.sources.opening import open_binary
from strandline.storage.outputs.shards import digest_bytes


class KeptFile(NamedTuple):
    """A file of a cut: its path or URL, and the blake2b-128 of its bytes."""

    location: str
    digest: bytes


class ReadKept(Stage):
    """Reads what a stage handed on of a source, in the order of its fan-out."""

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield what was handed on, task by task."""
        for file in task.data:
            try:
                with open_binary(file.location) as opened:
                    packed = opened.read()
            except OSError as error:
                yield FailedTask(f"what was kept can't be read: {error}")
                return
            if digest_bytes(packed) != file.digest:
                yield FailedTask(f"what was kept has other bytes now: {file.location}")
                return
            try:
                task = self.unpack(packed)
            except ValueError as error:
                yield FailedTask(f"{error}: {file.location}")
                return
            yield task

    def unpack(self, packed: bytes) -> Task:
        """Return the task that a file holds."""
        data, meta = read_task(packed)
        return Task(data, meta)


@runtime_checkable
class RereadableSink(Protocol):
    """A sink with files that hold exactly the tables that it was given."""

    def read_back(self, file: bytes) -> pa.Table:
        """Return the table that a file was written from."""


class ReadOutput(ReadKept):
    """Reads the files that a sink has written of a source.

    Args:
        sink: knows how.
    """

    def __init__(self, sink: RereadableSink) -> None:
        super().__init__()
        self._sink = sink

    def unpack(self, packed: bytes) -> Task:
        return Task(self._sink.read_back(packed))
