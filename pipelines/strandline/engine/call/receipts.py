"""The receipt of one stage call as it is written: what became of each task. Pure.

It must not know who calls the stage, nor what the stage does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Counts, Emitted, Event, Failure, Left, Output, Piece, Receipt
from strandline.plan.task import FailedTask, Lineage, NoneTask, Origin, Slot, Task
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


MESSAGE_CHARACTERS = 500


class ShapeError(StrandlineError, ValueError):
    """A stage answered in a shape that has no lineage; the message names the stage."""


@dataclass(slots=True)
class ReceiptDraft:
    """The receipt of one call as it is written, and the data that goes with it.

    Attributes:
        stage: its name.
        data: the new tasks.
    """

    stage: str
    data: list[Task] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def pass_on(self, lineage: Lineage, answer: Slot) -> None:
        """Note the answer to one task: the same one, nothing, or a failure."""
        if isinstance(answer, Task):
            self.emit(answer, lineage)
        elif isinstance(answer, FailedTask):
            self.fail(lineage, answer.msg)
        else:
            self.counts.filtered += 1
            self.events.append(Event(lineage.source, (lineage.token,), ()))

    def fan_out(self, parents: Sequence[Lineage], slots: Sequence[object]) -> None:
        """Note tasks that parents became, in slot order.

        Raises:
            ShapeError: something else is among them.
        """
        first = parents[0]
        tokens = tuple(lineage.token for lineage in parents)
        of = len(slots)
        children = []
        for index, slot in enumerate(slots):
            if isinstance(slot, (Task, FailedTask)):
                # A failed slot is announced too, so its source stays open whatever else is heard.
                token = derive_child(tokens, self.stage, index)
                children.append(token)
            if isinstance(slot, Task):
                # The first of a group stands for it: how many were left says nothing of the rest.
                origin = Origin(tokens[0], index, of)
                self.emit(slot, Lineage(first.source, token, first.key, origin))
            elif isinstance(slot, FailedTask):
                self.fail(first, slot.msg)
            elif slot is None or isinstance(slot, NoneTask):
                self.counts.filtered += 1
            else:
                msg = (
                    f"stage {self.stage!r} put {type(slot).__name__} into a fan-out; it must hold "
                    "Task, NoneTask or FailedTask"
                )
                raise ShapeError(msg)
        self.events.append(Event(first.source, tokens, tuple(children)))

    def emit(self, task: Task, lineage: Lineage) -> None:
        """Hand a task on under a lineage."""
        if task.lineage is not lineage:
            task = Task(task.data, task.meta, lineage)
        self.emitted.append(Emitted(len(self.data), lineage.source, lineage.token, lineage.origin))
        self.data.append(task)
        self.counts.tasks_out += 1
        self.counts.rows_out += task.num_rows

    def fail(self, lineage: Lineage, message: str) -> None:
        """Note that a task can't be worked on."""
        self.counts.failed += 1
        told = spell_message(message)
        self.failures.append(Failure(lineage.source, lineage.key, lineage.token, self.stage, told))

    def write(self, lineage: Lineage, outputs: tuple[Output, ...]) -> None:
        """Note that a sink has written a task."""
        self.counts.tasks_out += 1
        self.counts.rows_out += sum(output.rows for output in outputs)
        self.events.append(Event(lineage.source, (lineage.token,), (), outputs))

    def settle(self, lineages: Sequence[Lineage], piece: bytes | None) -> None:
        """Put a piece into the one event of this call."""
        event = attach(self.events[0] if self.events else None, self.stage, lineages, piece)
        if not self.events:
            renamed = rename(self.data[0], self.emitted[0], event)
            self.data, self.emitted = [renamed[0]], [renamed[1]]
        self.events = [event]

    def absorb(self, other: ReceiptDraft) -> None:
        """Add what another call has written to this."""
        places = len(self.data)
        self.emitted += [one._replace(place=one.place + places) for one in other.emitted]
        self.data += other.data
        self.events += other.events
        self.failures += other.failures
        self.counts.add(other.counts)

    def close(self) -> Receipt:
        """The receipt."""
        return Receipt(tuple(self.events), tuple(self.failures), tuple(self.emitted), self.counts)


def spell_message(message: object) -> str:
    """What a stage says of a failure, cut to size; what no text file can hold is spelled out."""
    text = str(message)[:MESSAGE_CHARACTERS].encode(errors="backslashreplace").decode()
    return text[:MESSAGE_CHARACTERS]
