"""Drafts the receipt of a stage call: records what happened to each task.

This module has no side effects, and must not depend on the work of the stage, or on the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import (
    EmittedTask,
    Event,
    Failure,
    Left,
    Output,
    Piece,
    Receipt,
    StageCounts,
    UniformFailure,
)
from strandline.plan.task import (
    DeadLetters,
    FailedTask,
    Lineage,
    NoneTask,
    Origin,
    Slot,
    Task,
)
from strandline.plan.token import derive_child, derive_dead


class FlushError(StrandlineError):
    """Raised if a stage can't discard the data gathered from a failed task.

    With that data, the results would be wrong, so the attempt ends.
    """


class HasLineage(Protocol):
    """Protocol of objects with a task's position in the tree of its source."""

    @property
    def source(self) -> bytes:
        """The source of the task."""

    @property
    def token(self) -> bytes:
        """The token of the task."""

    @property
    def origin(self) -> Origin | None:
        """The nearest enclosing fan-out of the task."""


def attach(
    event: Event | None, stage: str, lineages: Sequence[Lineage], piece: bytes | None
) -> Event:
    """Return the single event of a call, with a piece of gathered state added.

    If the event is None, the task was passed on. Then create an event that announces a child.
    """
    tokens = tuple(lineage.token for lineage in lineages)
    left: tuple[Left, ...] = () if piece is None else (Piece(stage, tokens[0], piece),)
    if event is None:
        return Event(lineages[0].source, tokens, (derive_child(tokens, stage, 0),), left)
    return event._replace(outputs=event.outputs + left)


def rename(task: Task, emitted: EmittedTask, event: Event) -> tuple[Task, EmittedTask]:
    """Give a passed-on task the token that its event announces. Return the task and its record."""
    assert task.lineage is not None  # every emitted task has a lineage
    (token,) = event.children
    lineage = task.lineage._replace(token=token)
    return Task(task.data, task.meta, lineage), emitted._replace(token=token)


def find_gone(
    batch: Iterable[HasLineage], emitted: Iterable[EmittedTask]
) -> list[tuple[Origin, bytes]]:
    """Return the fan-out slots whose tasks end in a call, with the source of each slot.

    Args:
        batch: the input of the call.
        emitted: the output of the call.
    """
    given = list(batch)
    kept = {each.origin for each in emitted if each.origin}
    gone = [(each.origin, each.source) for each in given if each.origin and each.origin not in kept]
    owners = {each.token: each.source for each in given}
    for parent, of in {(origin.parent, origin.of) for origin in kept}:
        if parent in owners:  # a fan-out of this call, which may have empty slots
            slots = (Origin(parent, slot, of) for slot in range(of))
            gone += [(origin, owners[parent]) for origin in slots if origin not in kept]
    return gone


MESSAGE_CHARACTERS = 500


class ShapeError(StrandlineError, ValueError):
    """Raised if the outputs of a stage can't be matched to its inputs."""

    is_lasting = True


class OpenTask(NamedTuple):
    """A task whose output is not complete: its token, and the number of slots passed on so far."""

    token: bytes
    handed: int


class WorkUnit(NamedTuple):
    """Tasks that a stage processes together: their sources and counts."""

    sources: frozenset[bytes]
    counts: StageCounts


class CallPart(NamedTuple):
    """The new tasks of a call since the previous part, and their receipt.

    Attributes:
        opened: the task with which the next part continues; None if this part is the last.
        units: the counts of the receipt, split by unit.
    """

    data: list[Task]
    receipt: Receipt
    opened: OpenTask | None
    units: Sequence[WorkUnit] = ()


@dataclass(slots=True)
class ReceiptDraft:
    """The receipt of one call under construction, and the data that goes with it.

    Attributes:
        stage: the name of the stage.
        taken: source and input row count of each processed task.
        data: the new tasks.
        counts: counts of the current unit.
        units: the finished units.
    """

    stage: str
    taken: list[tuple[bytes, int]] = field(default_factory=list)
    data: list[Task] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    emitted: list[EmittedTask] = field(default_factory=list)
    counts: StageCounts = field(default_factory=StageCounts)
    units: list[WorkUnit] = field(default_factory=list)
    _begun: tuple[int, ...] = (0, 0, 0, 0, 0)  # lengths of the lists when the current unit began

    def begin_unit(self, tasks: Sequence[Task]) -> None:
        """Begin a unit of tasks that are processed together. The previous unit must have ended."""
        self._begun = tuple(map(len, self._lists))
        for task in tasks:
            self.begin(task)

    def end_unit(self, sources: frozenset[bytes]) -> None:
        """End the current unit."""
        self.units.append(WorkUnit(sources, self.counts))
        self.counts = StageCounts()

    def split(self) -> ReceiptDraft:
        """Move the records of finished units into a new draft. Keep the current unit here."""
        taken, data, events, failures, emitted = (whole[:at] for whole, at in self._cut)
        over = ReceiptDraft(self.stage, taken, data, events, failures, emitted, units=self.units)
        self.taken, self.data, self.events, self.failures, emitted = (
            whole[at:] for whole, at in self._cut
        )
        shift = len(over.data)
        # Shift the positions, which are indexes into the data of the draft.
        self.emitted = [each._replace(position=each.position - shift) for each in emitted]
        self.units, self._begun = [], (0, 0, 0, 0, 0)
        return over

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.taken, self.data, self.events, self.failures, self.emitted

    @property
    def _cut(self) -> Iterable[tuple[list[Any], int]]:
        return zip(self._lists, self._begun, strict=True)

    def begin(self, task: Task) -> None:
        """Record that work on a task begins. Call before the stage may change the task."""
        assert task.lineage is not None  # all tasks from the driver have a lineage
        self.taken.append((task.lineage.source, task.num_rows))
        self.counts.tasks_in += 1
        self.counts.rows_in += task.num_rows

    def pass_on(self, lineage: Lineage, answer: Slot) -> None:
        """Record the result of one task: a task, nothing, or a failure."""
        if isinstance(answer, Task):
            self.emit(answer, lineage)
        elif isinstance(answer, FailedTask):
            self.fail(lineage, answer.msg)
        else:
            self.counts.filtered += 1
            self.events.append(Event(lineage.source, (lineage.token,), ()))

    def fan_out(self, parents: Sequence[Lineage], slots: Sequence[object]) -> None:
        """Record the children of parents, in slot order.

        Raises:
            ShapeError: if a slot contains an invalid result.
        """
        tokens = tuple(lineage.token for lineage in parents)
        children = [
            # For a group, the first parent represents all parents.
            self.take_slot(parents[0], tokens, Origin(tokens[0], index, len(slots)), slot)
            for index, slot in enumerate(slots)
        ]
        self.settle_parents(parents, children)

    def take_slot(
        self,
        first: Lineage,
        tokens: tuple[bytes, ...],
        origin: Origin,
        slot: object,
        *,
        is_new: bool = True,
    ) -> bytes | None:
        """Record the content of one slot of a fan-out.

        Return the token of its child, if it has one.

        Args:
            first: the first parent; `tokens` has the tokens of all parents.
            is_new: False if the slot was already passed on, and is only counted as a child now.

        Raises:
            ShapeError: if the content is not a valid result.
        """
        if slot is None or isinstance(slot, NoneTask):
            self.counts.filtered += is_new
            return None
        if not isinstance(slot, (Task, FailedTask)):
            msg = (
                f"stage {self.stage!r} put {type(slot).__name__} into a fan-out; it must hold "
                "Task, NoneTask or FailedTask"
            )
            raise ShapeError(msg)
        token = derive_child(tokens, self.stage, origin.slot)
        if isinstance(slot, FailedTask):
            self.fail(first, slot.msg)
        elif is_new:
            self.emit(slot, Lineage(first.source, token, first.key, origin))
        # Announce a failed slot too. As the token is never settled, the source cannot finish.
        return token

    def settle_parents(self, parents: Sequence[Lineage], children: Sequence[bytes | None]) -> None:
        """Record that parents became these children. A slot without a child is None."""
        tokens = tuple(lineage.token for lineage in parents)
        announced = tuple(child for child in children if child is not None)
        self.events.append(Event(parents[0].source, tokens, announced))

    def part(
        self,
        parents: Sequence[Lineage],
        answer: Task | Sequence[object] | None,
        letters: DeadLetters | None,
        rows: Sequence[int],
    ) -> None:
        """Record the result of parents if some of their rows failed.

        Args:
            answer: the result of the other rows: a task, the slots of a fan-out, or None.
            letters: dead letters of the failed rows; None drops the rows.
            rows: numbers that identify the failed rows.
        """
        first, tokens = parents[0], tuple(lineage.token for lineage in parents)
        children: list[bytes | None] = []
        if isinstance(answer, Task):
            # Keep the parent's slot in the task's origin; otherwise a later stage that joins groups
            # would miss the task.
            token = derive_child(tokens, self.stage, 0)
            children.append(token)
            self.emit(answer, first._replace(token=token))
        elif answer is not None:
            children += [
                self.take_slot(first, tokens, Origin(tokens[0], index, len(answer)), slot)
                for index, slot in enumerate(answer)
            ]
        children.append(self.add_letters(parents, letters, rows))
        self.settle_parents(parents, children)

    def add_letters(
        self, parents: Sequence[Lineage], letters: DeadLetters | None, rows: Sequence[int]
    ) -> bytes | None:
        """Record failed rows. Return the token of their dead letters, or None if dropped."""
        if letters is None:
            self.counts.dropped += max(1, len(rows))
            return None
        first = parents[0]
        token = derive_dead([lineage.token for lineage in parents], self.stage, rows)
        self.counts.dead += letters.table.num_rows
        self.carry(Task(letters, None, Lineage(first.source, token, first.key)))
        return token

    def carry(self, task: Task) -> None:
        """Pass on a task that needs no further work, unchanged and uncounted."""
        assert task.lineage is not None  # the driver or `emit` has set the lineage
        source, token, *_ = task.lineage
        self.emitted.append(EmittedTask(len(self.data), source, token, task.lineage.origin))
        self.data.append(task)

    def emit(self, task: Task, lineage: Lineage) -> None:
        """Pass on a task with the given lineage, and count it."""
        if task.lineage is not lineage:
            task = Task(task.data, task.meta, lineage)
        self.carry(task)
        self.counts.tasks_out += 1
        self.counts.rows_out += task.num_rows

    def fail(self, lineage: Lineage, message: str) -> None:
        """Record that a task can't be processed."""
        self.counts.failed += 1
        report = format_message(message)
        self.failures.append(
            Failure(lineage.source, lineage.key, lineage.token, self.stage, report)
        )

    def note_uniform(
        self, lineage: Lineage, rows: int, message: str, *, fails_source: bool
    ) -> None:
        """Record that all rows of a task failed for the same reason."""
        uniform = UniformFailure(
            lineage.source, lineage.key, rows, format_message(message), fails_source
        )
        self.counts.uniform = self.counts.uniform or uniform

    def write(self, lineage: Lineage, outputs: tuple[Output, ...]) -> None:
        """Record that a sink has written a task."""
        self.counts.tasks_out += 1
        for output in outputs:
            self.counts.rows_out += output.rows
            self.counts.size += output.size
        self.events.append(Event(lineage.source, (lineage.token,), (), outputs))

    def write_letters(self, lineage: Lineage, output: Output) -> None:
        """Record that dead letters were written."""
        self.events.append(Event(lineage.source, (lineage.token,), (), (output,)))

    def settle(self, lineages: Sequence[Lineage], piece: bytes | None) -> None:
        """Add a piece of gathered state to the single event of this call."""
        event = attach(self.events[0] if self.events else None, self.stage, lineages, piece)
        if not self.events:
            renamed = rename(self.data[0], self.emitted[0], event)
            self.data, self.emitted = [renamed[0]], [renamed[1]]
        self.events = [event]

    def absorb(self, other: ReceiptDraft) -> None:
        """Append the contents of another draft."""
        positions = len(self.data)
        self.emitted += [
            emitted._replace(position=emitted.position + positions) for emitted in other.emitted
        ]
        self.taken += other.taken
        self.data += other.data
        self.events += other.events
        self.failures += other.failures
        self.counts.add(other.sum_up())

    def sum_up(self) -> StageCounts:
        """Return the counts of the whole call."""
        whole = StageCounts()
        for counts in (*(unit.counts for unit in self.units), self.counts):
            whole.add(counts)
        return whole

    def close(self) -> Receipt:
        """Finish the draft. Return the receipt."""
        events, failures = tuple(self.events), tuple(self.failures)
        return Receipt(events, failures, tuple(self.emitted), self.sum_up())

    def clear(self) -> None:
        """Reset the draft for the next part of the same call."""
        self.taken, self.data, self.events, self.failures, self.emitted = [], [], [], [], []
        self.counts, self.units, self._begun = StageCounts(), [], (0, 0, 0, 0, 0)


def format_message(message: object, most: int = MESSAGE_CHARACTERS) -> str:
    """Format the message of a failure, truncated to `most` characters.

    Characters that a text file can't represent are escaped.
    """
    text = str(message)[:most].encode(errors="backslashreplace").decode()
    # Truncate again, because escapes lengthen the text.
    return text[:most]
