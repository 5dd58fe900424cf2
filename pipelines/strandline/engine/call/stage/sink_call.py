"""Writes the output of a sink's call: one file per task, files shared by tasks, and dead letters.

The receipt asserts that the files are durable, so the receipt is returned only after that. The
module must not depend on the origin of the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.engine.call.stage.receipts import ReceiptDraft
from strandline.engine.call.stage.trials import StageRaisedError, Trials
from strandline.plan.receipt import DEAD, Output
from strandline.plan.stages.ends import SinkStage
from strandline.plan.task import DeadLetters, Lineage, Task, lineage_of
from strandline.storage.outputs.names import DEAD_LETTERS
from strandline.storage.outputs.ports import OutputGroup, OutputStore
from strandline.storage.outputs.shared_files import SharedFiles


class SinkCall:
    """A sink that is ready to be called.

    Args:
        sink: the sink, already set up.
        outputs: the location of the outputs.
        shared: groups tasks that share a file; None if each task has its own file.
        trials: runs the code of the sink.
    """

    def __init__(
        self, sink: SinkStage, outputs: OutputStore, shared: SharedFiles | None, trials: Trials
    ) -> None:
        self._sink = sink
        self._outputs = outputs
        self._shared = shared
        self._trials = trials

    def write(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        """Write tasks. The files are durable on return.

        Raises:
            VolumeError: if the location can't be written to.
        """
        with self._outputs.grouped() as group:
            for task in tasks:
                if self._shared is None or not _can_share(task):
                    self._write_alone(task, group, writing)
            if self._shared is not None:
                for unit in self._shared.assign(list(filter(_can_share, tasks))):
                    self._write_together(self._shared, unit, group, writing)

    def write_letters(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        """Write dead letters. The files are durable on return."""
        with self._outputs.open_aside(DEAD_LETTERS).grouped() as group:
            for task in tasks:
                lineage, letters = lineage_of(task), task.data
                assert isinstance(letters, DeadLetters)  # the caller passes only dead letters
                name = f"{lineage.token.hex()}.{letters.stage}.parquet"
                write = partial(_write_parquet, letters.table)
                written = group.write(lineage.source, name, write)
                rows = letters.table.num_rows
                suffix = DEAD + letters.stage
                output = Output(lineage.token, suffix, written.size, written.digest, rows)
                writing.write_letters(lineage, output)

    def _write_together(
        self, shared: SharedFiles, tasks: Sequence[Task], group: OutputGroup, writing: ReceiptDraft
    ) -> None:
        """Write tasks into a shared file.

        A single task goes into a shared file too. If the task had a separate file, and a later try
        joined the task with others, the separate file would be left over.
        """
        try:
            outputs = self._trials.run(partial(shared.write, tasks, group))
        except StageRaisedError as error:
            if len(tasks) == 1:
                writing.fail(lineage_of(tasks[0]), str(error))
                return
            # A task made the shared file fail. Write each task alone, to find that task.
            for task in tasks:
                self._write_together(shared, [task], group, writing)
            return
        for task, output in zip(tasks, outputs, strict=True):
            writing.write(lineage_of(task), output)

    def _write_alone(self, task: Task, group: OutputGroup, writing: ReceiptDraft) -> None:
        lineage = lineage_of(task)
        try:
            written = self._trials.run(partial(_write, self._sink, task, lineage, group))
            writing.write(lineage, written)
        except StageRaisedError as error:
            writing.fail(lineage, str(error))


def _write(sink: SinkStage, task: Task, lineage: Lineage, group: OutputGroup) -> tuple[Output, ...]:
    if not (task.num_rows or sink.writes_empty):
        return ()
    outputs: list[Output] = []
    for suffix, write in {sink.suffix: sink.write, **sink.list_companions()}.items():
        name = lineage.token.hex() + suffix
        written = group.write(lineage.source, name, partial(write, task))
        # Count the task's rows once, even if companion files are written.
        rows = 0 if outputs else task.num_rows
        outputs.append(Output(lineage.token, suffix, written.size, written.digest, rows))
    return tuple(outputs)


def _can_share(task: Task) -> bool:
    return isinstance(task.data, pa.Table) and task.num_rows > 0


def _write_parquet(table: pa.Table, target: BinaryIO) -> None:
    """Write rows as Parquet. Columns of types that Parquet lacks are written as text."""
    for index, field in enumerate(table.schema):
        try:
            # Only a trial shows whether Parquet supports a type; no rows are needed.
            pq.write_table(table.select([index]).slice(0, 0), pa.BufferOutputStream())
        except (pa.ArrowException, NotImplementedError):
            text = pa.array([repr(value) for value in table.column(index).to_pylist()])
            table = table.set_column(index, field.name, text)
    pq.write_table(table, target)
