"""Reading a cut, as tasks for the stage behind it.

A worker loads it, so it must not know ledgers or runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from strandline.engine.call.stage.cuts import read_task
from strandline.plan.stage import Stage
from strandline.plan.task import FailedTask, Slot, Task
from strandline.stages.sources.opening import open_binary


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
            if blake2b(packed, digest_size=16).digest() != file.digest:
                yield FailedTask(f"what was kept has other bytes now: {file.location}")
                return
            data, meta = read_task(packed)
            yield Task(data, meta)
