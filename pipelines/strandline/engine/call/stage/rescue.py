"""Handles errors of a stage that continues after errors: separates failing rows from passing rows.

The passing rows are processed once more, together, as if the failing rows did not exist. Therefore,
the result does not depend on how the task was split to find the failing rows. The module must not
depend on the location of dead letters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import pyarrow as pa

from strandline.engine.call.stage.failed_rows import (
    DETAIL_CHARACTERS,
    RowError,
    build_dead_letters,
    find_failed,
    list_others,
    number_row,
    spread_error,
)
from strandline.engine.call.stage.receipts import ReceiptDraft, ShapeError, format_message
from strandline.engine.call.stage.stage_tally import CERTAIN, find_uniform
from strandline.engine.call.stage.trials import StageRaisedError, Trials
from strandline.plan.pipeline import StagePlan
from strandline.plan.task import DeadLetters, FailedRow, FailedTask, Lineage, NoneTask, Task

# Maximum number of searches for failing rows: a row that fails only sometimes may pass the search,
# and fail when the passing rows are processed once more.
ROUNDS = 3

Again = Callable[[Task], object]
Rest = Task | list[object] | None


class Rescue:
    """Separates failing rows from passing rows, as the plan requires.

    Args:
        plan: the plan of the stage.
        trials: runs the code of the stage.
        forget: makes a gathering stage discard what a trial has added.
    """

    def __init__(self, plan: StagePlan, trials: Trials, forget: Callable[[], None]) -> None:
        self._plan = plan
        self._trials = trials
        self._forget = forget if plan.gathers else lambda: None
        self.is_on = plan.on_error != "fail"

    def copy(self, task: Task) -> Task:
        """Return a copy of a task for a retry, because the first try may change its input."""
        if not self.is_on:  # errors fail the source, so the task is not retried
            return task
        return Task(task.data, copy.deepcopy(task.meta), task.lineage)

    def take(
        self,
        parents: Sequence[Lineage],
        task: Task,
        answer: object,
        again: Again,
        writing: ReceiptDraft,
    ) -> bool:
        """Record a result that marks rows or tasks as failed. Return False for any other result.

        Args:
            parents: parents of the result: one task, or the tasks of a group.
            task: the input as it was before the call.
            again: processes a task with fewer rows.
        """
        slots = answer if isinstance(answer, list) else [answer]
        marks = [slot for slot in slots if isinstance(slot, FailedRow)]
        if marks and not self.is_on:
            first = self._read_marks(task, marks)[0]
            row = number_row(task.meta, self._plan.name, first.row or 0)
            writing.fail(parents[0], f"row {row}: {first.message}")
            return True
        if not self.is_on or not (marks or any(isinstance(slot, FailedTask) for slot in slots)):
            return False
        if isinstance(answer, FailedTask):
            error = StageRaisedError(answer.msg, FailedTask.__name__)
            self.lose(parents, task, error, again, writing)
            return True
        rest, errors = self._unfold(task, slots)
        self._part(parents, task, rest, errors, writing)
        return True

    def lose(
        self,
        parents: Sequence[Lineage],
        task: Task,
        error: StageRaisedError,
        again: Again,
        writing: ReceiptDraft,
    ) -> None:
        """Record that processing a task failed, and record the result of its passing rows."""
        if not self.is_on:
            writing.fail(parents[0], str(error))
            if error.kind == CERTAIN:
                writing.note_uniform(parents[0], task.num_rows, str(error), fails_source=True)
            return
        rest, errors = self._split(task, again, _describe(error))
        self._part(parents, task, rest, errors, writing)

    def lose_slot(
        self, parent: Lineage, task: Task, error: StageRaisedError, writing: ReceiptDraft
    ) -> bytes | None:
        """Record an error of a task's iterator. Return the token of the dead letters, or None."""
        errors = spread_error(task.data, _describe(error))
        return writing.add_letters([parent], self._build(task, errors), _number(errors))

    def lose_yielded(
        self, parent: Lineage, task: Task, slot: FailedTask | FailedRow, writing: ReceiptDraft
    ) -> bytes | None:
        """Record a slot that is marked as failed. Return the token of the dead letters, or None."""
        _, errors = self._unfold(task, [slot])
        return writing.add_letters([parent], self._build(task, errors), _number(errors))

    def _part(
        self,
        parents: Sequence[Lineage],
        task: Task,
        rest: Rest,
        errors: Sequence[RowError],
        writing: ReceiptDraft,
    ) -> None:
        # Sort by row. The error of a whole task comes first.
        errors = sorted(errors, key=lambda error: -1 if error.row is None else error.row)
        writing.part(parents, rest, self._build(task, errors), _number(errors))
        if rest is None and errors:
            messages = [error.message for error in errors]
            why = find_uniform(messages, errors[0].kind, task.num_rows)
            if why is not None:
                writing.note_uniform(parents[0], task.num_rows, why, fails_source=False)

    def _build(self, task: Task, errors: Sequence[RowError]) -> DeadLetters | None:
        if self._plan.on_error == "drop":
            return None
        bounded, name = list(map(_bound, errors)), self._plan.name
        table = build_dead_letters(task.data, bounded, name, task.key, task.meta)
        return DeadLetters(self._plan.name, table)

    def _split(self, task: Task, again: Again, whole: RowError) -> tuple[Rest, list[RowError]]:
        """Separate the rows of a task. Return the result of passing rows, and all errors."""
        self._forget()
        table = task.data
        if not (self._plan.splits and isinstance(table, pa.Table) and table.num_rows > 1):
            return None, spread_error(table, whole)
        rows, errors = list(range(table.num_rows)), list[RowError]()
        for _ in range(ROUNDS):
            part = task.replace(table.take(rows) if errors else table)
            found = find_failed(len(rows), partial(self._attempt, part, again))
            if not found:
                break
            errors += [_move(error, rows) for error in found]
            rows = [rows[position] for position in list_others(len(rows), found)]
            if not rows:
                return None, errors
            rest = task.replace(table.take(rows))
            answer = self._answer_rest(rest, again)
            if not isinstance(answer, RowError):
                passed, marked = self._unfold(rest, answer)
                return passed, [*errors, *(_move(error, rows) for error in marked)]
            whole = answer
        return None, [*errors, *(whole._replace(row=row) for row in rows)]

    def _attempt(self, part: Task, again: Again, begin: int, end: int) -> RowError | None:
        """Process some rows of a task only to find out whether they fail."""
        rows = self.copy(part.replace(part.table.slice(begin, end - begin)))
        try:
            answer = self._trials.probe(partial(again, rows))
        except StageRaisedError as error:
            return _describe(error)
        finally:
            self._forget()
        return _find_error(answer)

    def _answer_rest(self, rest: Task, again: Again) -> list[object] | RowError:
        """Return the result for rows that passed the search, or the error if they fail now."""
        try:
            answer = self._trials.run(partial(again, self.copy(rest)))
        except StageRaisedError as error:
            self._forget()
            return _describe(error)
        if isinstance(answer, FailedTask):
            self._forget()
            return RowError(None, FailedTask.__name__, answer.msg)
        return answer if isinstance(answer, list) else [answer]

    def _unfold(self, task: Task, slots: Sequence[object]) -> tuple[Rest, list[RowError]]:
        """Return a result without its failed slots, and the errors of the failed slots."""
        marks = [slot for slot in slots if isinstance(slot, FailedRow)]
        others = [slot for slot in slots if not isinstance(slot, FailedRow)]
        errors = self._read_marks(task, marks)
        for slot in others:
            if isinstance(slot, FailedTask):
                errors.append(RowError(None, FailedTask.__name__, slot.msg))
        passed = [NoneTask() if isinstance(slot, FailedTask) else slot for slot in others]
        if len(passed) != 1:
            return (passed or None), errors
        (single,) = passed
        if isinstance(single, Task):
            return single, errors
        return (None if single is None or isinstance(single, NoneTask) else passed), errors

    def _read_marks(self, task: Task, marks: Sequence[FailedRow]) -> list[RowError]:
        errors = []
        for mark in marks:
            if not (isinstance(task.data, pa.Table) and 0 <= mark.row < task.data.num_rows):
                self._refuse(mark, task)
            errors.append(RowError(mark.row, FailedRow.__name__, mark.msg, mark.detail))
        return errors

    def _refuse(self, mark: FailedRow, task: Task) -> NoReturn:
        msg = f"stage {self._plan.name!r} returned {mark!r} for a task of {task.num_rows} rows"
        raise ShapeError(msg)


def _describe(error: StageRaisedError) -> RowError:
    return RowError(None, error.kind, str(error))


def _find_error(answer: object) -> RowError | None:
    for slot in answer if isinstance(answer, list) else [answer]:
        if isinstance(slot, FailedTask | FailedRow):
            return RowError(None, type(slot).__name__, slot.msg)
    return None


def _bound(error: RowError) -> RowError:
    """Return an error whose texts are truncated, and can be stored in a file."""
    detail = format_message(error.detail, DETAIL_CHARACTERS)
    return error._replace(message=format_message(error.message), detail=detail)


def _move(error: RowError, rows: Sequence[int]) -> RowError:
    """Translate an error's row index in a selection of rows to the index among all rows."""
    return error if error.row is None else error._replace(row=rows[error.row])


def _number(errors: Sequence[RowError]) -> list[int]:
    """Return a number that identifies each error: the row index plus 1, or 0 for a whole task."""
    return [0 if error.row is None else error.row + 1 for error in errors]
