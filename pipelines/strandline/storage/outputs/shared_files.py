"""Writes shared files: assigns the tables of a group to files, and records each table's position.

Files have about the requested size, and become durable with their group. The caller decides which
tasks may share a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise

import pyarrow as pa

from strandline.plan.receipt import Output, SharedPart
from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task, lineage_of
from strandline.plan.token import derive_shared
from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.ports import OutputGroup


class SharedFiles:
    """Writes tasks of several sources into files of about the requested size.

    Args:
        target: target size of a file in bytes.
    """

    def __init__(self, sink: SharingSink, target: int) -> None:
        self._sink = sink
        self._target = target
        self._ratio = 1.0  # size of a file divided by the size of its tables in memory

    def assign(self, tasks: Sequence[Task]) -> Iterator[list[Task]]:
        """Yield the tasks of each file. All tasks must have tables."""
        alike: list[tuple[pa.Schema, list[Task]]] = []
        for task in tasks:
            schema = task.table.schema
            known = next((each for found, each in alike if found.equals(schema, True)), None)  # noqa: FBT003 - with its metadata
            if known is None:
                alike.append((schema, [task]))
            else:
                known.append(task)
        for _, found in alike:
            yield from self._cut(found)

    def write(self, tasks: Sequence[Task], group: OutputGroup) -> list[tuple[Output, ...]]:
        """Write tasks into a file and its companions. Return the outputs of each task."""
        file = derive_shared(lineage_of(task).token for task in tasks)
        sink, suffix = self._sink, self._sink.suffix
        written = group.write_shared(file, suffix, partial(sink.write_shared, tasks))
        # Use the ratio of the last file to predict the size of the next files.
        self._ratio = written.size / sum(map(_measure, tasks))
        parts = [list(_share(tasks, file, suffix, written))]
        whole = Task(pa.concat_tables([task.table for task in tasks]))
        for beside, write in sink.list_companions().items():
            written = group.write_shared(file, beside, partial(write, whole))
            # Count the rows only once, in the main file.
            shares = _share(tasks, file, beside, written)
            parts.append([output._replace(rows=0) for output in shares])
        return list(zip(*parts, strict=True))

    def _cut(self, tasks: Sequence[Task]) -> Iterator[list[Task]]:
        """Yield consecutive tasks for each file. All files have about the target size."""
        ends = list(accumulate(map(_measure, tasks)))
        count = max(1, round(ends[-1] * self._ratio / self._target))
        files: list[list[Task]] = [[] for _ in range(count)]
        for task, end in zip(tasks, ends, strict=True):
            middle = end - _measure(task) / 2
            files[int(middle * count / ends[-1])].append(task)
        return filter(None, files)


def _share(tasks: Sequence[Task], file: bytes, suffix: str, written: Content) -> Iterator[Output]:
    """Yield for each task the part of a file that belongs to the task."""
    size, digest = written
    sizes = list(accumulate(map(_measure, tasks), initial=0))
    begins = list(accumulate((task.num_rows for task in tasks), initial=0))
    shares = pairwise(size * bound // sizes[-1] for bound in sizes)
    for task, (begin, end), first in zip(tasks, shares, begins[:-1], strict=True):
        part = SharedPart(file, first, size, begins[-1])
        token = lineage_of(task).token
        yield Output(token, suffix, end - begin, digest, task.num_rows, part)


def _measure(task: Task) -> int:
    # Count an empty table as one byte, because shares are divided by the sum of all sizes.
    return max(1, int(task.table.nbytes))
