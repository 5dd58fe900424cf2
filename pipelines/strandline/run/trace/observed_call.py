"""A part of a stage call as seen from outside: input rows, output rows, and failed rows.

The module must not depend on the row that is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from strandline.data.tables.row_filter import RowFilter
from strandline.data.tables.rules import RowVerdict
from strandline.engine.call.stage.stage_call import StageCall
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import DROPPED, Receipt
from strandline.plan.stages.stage import Shape, Stage
from strandline.plan.task import DeadLetters, Task, lineage_of
from strandline.run.trace.row_keys import RowIndex, index_rows


class RowLocation(NamedTuple):
    """A row of a call: the task's index among inputs or outputs, and the row's index."""

    task: int
    row: int


class LoneResult(NamedTuple):
    """The result of a stage for a single row: tables, the reason of a drop, and the error."""

    tables: list[pa.Table]
    reason: str
    error: str


class ObservedCall:
    """A part of a call.

    Args:
        plan: the stage, which is set up.
        before: the input.
        after: the new tasks.
        receipt: their receipt.
        column: column with the keys of rows.

    Attributes:
        inputs, outputs: tasks with tables. The tasks of a group are joined into one.
        starts: by token of an input task, the location of its first row.
        letters: dead letters of this stage.
        input_index, output_index, letter_index: rows by key, for each table.
    """

    def __init__(
        self,
        plan: StagePlan,
        before: Sequence[Task],
        after: Sequence[Task],
        receipt: Receipt,
        column: str,
    ) -> None:
        self.plan, self._receipt = plan, receipt
        self.inputs = [task for task in before if isinstance(task.data, pa.Table)]
        tokens = [lineage_of(task).token for task in self.inputs]
        self.starts = {token: RowLocation(at, 0) for at, token in enumerate(tokens)}
        if plan.shape is Shape.GROUP and self.inputs:
            self._join(tokens)
        self.outputs = [task for task in after if isinstance(task.data, pa.Table)]
        letters = (task.data for task in after if isinstance(task.data, DeadLetters))
        self.letters = [each.table for each in letters if each.stage == plan.name]
        self.input_index: list[RowIndex] = [
            index_rows(task.table, column) if plan.is_first else {} for task in self.inputs
        ]
        self.output_index = [index_rows(task.table, column) for task in self.outputs]
        self.letter_index = [index_rows(table, column) for table in self.letters]
        self._verdicts: dict[int, list[RowVerdict | None]] = {}

    def _join(self, tokens: Sequence[bytes]) -> None:
        sizes = [task.num_rows for task in self.inputs]
        self.inputs = [copy(self.plan.stage).join(list(self.inputs))]
        # Only the default join keeps all rows in order.
        is_default = type(self.plan.stage).join is Stage.join
        starts = {token: RowLocation(0, sum(sizes[:at])) for at, token in enumerate(tokens)}
        self.starts = starts if is_default else {}

    def judge(self, location: RowLocation) -> RowVerdict | None:
        """Return a filter's verdict on an input row, or None if there is none."""
        stage, task = self.plan.stage, self.inputs[location.task]
        if not isinstance(stage, RowFilter):
            return None
        if location.task not in self._verdicts:
            try:
                self._verdicts[location.task] = stage.explain_rows(task.table)
            except Exception:  # noqa: BLE001 - the call itself failed in the same way
                self._verdicts[location.task] = [None] * task.num_rows
        return self._verdicts[location.task][location.row]

    def find_failure(self, location: RowLocation) -> str | None:
        """Return why the source of an input row failed in this call, or None."""
        source = lineage_of(self.inputs[location.task]).source
        found = (each.message for each in self._receipt.failures if each.source == source)
        return next(found, None)

    def run_alone(self, location: RowLocation) -> LoneResult:
        """Call the stage with a single row.

        The result is what the stage made of the row, unless the stage compares rows.
        """
        task = self.inputs[location.task]
        own = replace(self.plan, stage=copy(self.plan.stage), streams=False, on_error="deadLetter")
        own.stage.counters = {}
        row = Task(task.table.slice(location.row, 1), task.meta, task.lineage)
        tasks, receipt = StageCall(own, None, lambda: 0.0).run([row])
        letters = [each.data.table for each in tasks if isinstance(each.data, DeadLetters)]
        errors = [error for each in letters for error in each["dead_message"].to_pylist()]
        tables = [each.data for each in tasks if isinstance(each.data, pa.Table)]
        dropped = (name for name in receipt.counts.counters if name.startswith(DROPPED))
        reason = next(dropped, "").removeprefix(DROPPED)
        return LoneResult(tables, reason, errors[0] if errors else "")
