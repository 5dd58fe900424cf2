"""Checks the results that a stage returns. Invalid results are rejected with a clear message.

The message names the valid types. The module must not depend on how stages are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, cast

import pyarrow as pa

from strandline.engine.call.stage.receipts import ShapeError
from strandline.plan.task import FailedTask, NoneTask, Slot, Task


class AnswerCheck:
    """Checks the results of one stage.

    Args:
        name: the name of the stage.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def take_list(self, answers: object) -> list[object]:
        """Return the results for a batch.

        Raises:
            ShapeError: if the results are not a list.
        """
        if not isinstance(answers, list):
            self.refuse(f"returned {type(answers).__name__} for a batch; it must return a list")
        return cast("list[object]", answers)

    def take_slot(self, answer: object) -> Slot:
        """Return the result for a task.

        Raises:
            ShapeError: if the result is not valid for a single task.
        """
        if answer is not None and not isinstance(answer, (Task, NoneTask, FailedTask)):
            if isinstance(answer, list):
                self.refuse(
                    "fanned out in a batch, so a child has no single parent; set batchSize to 1"
                )
            kind = type(answer).__name__
            self.refuse(f"returned {kind}; it must return Task, NoneTask or FailedTask")
        return answer

    def refuse(self, what: str) -> NoReturn:
        """Raise a `ShapeError` that describes what the stage did."""
        msg = f"stage {self._name!r} {what}"
        raise ShapeError(msg)


def join_blindly(tasks: Sequence[Task]) -> Task:
    """Join a group into one task for its dead letters if the stage's own `join` has failed."""
    tables = [task.data for task in tasks if isinstance(task.data, pa.Table)]
    if len(tables) < len(tasks):
        return tasks[0]
    try:
        return tasks[0].replace(pa.concat_tables(tables, promote_options="permissive"))
    except pa.ArrowException:
        return tasks[0]
