"""How what a stage gathered of a task gets into the task's event. Pure.

The piece travels in the event that settles the task, and a task that was only passed on is settled
too: so a source can't be finished before all its pieces were heard of, in whatever order that was.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Emitted, Event, Left, Piece
from strandline.plan.task import Lineage, Task
from strandline.plan.token import derive_child


class FlushError(StrandlineError):
    """A stage can't forget what it gathered of a task that failed, so all else would be wrong."""


def attach(
    event: Event | None, stage: str, lineages: Sequence[Lineage], piece: bytes | None
) -> Event:
    """The one event of a call with its piece; None: the task was passed on, and gets a child."""
    tokens = tuple(lineage.token for lineage in lineages)
    left: tuple[Left, ...] = () if piece is None else (Piece(stage, tokens[0], piece),)
    if event is None:
        return Event(lineages[0].source, tokens, (derive_child(tokens, stage, 0),), left)
    return event._replace(outputs=event.outputs + left)


def rename(task: Task, emitted: Emitted, event: Event) -> tuple[Task, Emitted]:
    """A task that was passed on, under the token that its event announces."""
    assert task.lineage is not None  # it was emitted
    (token,) = event.children
    lineage = task.lineage._replace(token=token)
    return Task(task.data, task.meta, lineage), emitted._replace(token=token)
