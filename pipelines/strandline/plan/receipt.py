"""Receipts: reports of stage calls in the terms of the counting law.

A receipt travels with the call's data: either both reach the driver, or neither does. Receipts are
plain data, and this module must not depend on the tally or the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # processes that only read ledgers do not need tasks
    from strandline.plan.task import Origin


# First character of the suffix of dead letters and of cuts. No sink's suffix begins with either.
DEAD, CUT = "!", "+"
NO_SLOT = -1


class SharedPart(NamedTuple):
    """Position of a task's rows in a file that several sources share.

    Attributes:
        file: name of the file; see `derive_shared`.
        begin: index of the task's first row in the file.
        size, rows: size in bytes and row count of the whole file.
    """

    file: bytes
    begin: int
    size: int
    rows: int


class Output(NamedTuple):
    """Durable output of a sink for one task: a file, or a part of a shared file.

    Attributes:
        token: token of the written task; token and suffix together are the name of the task's file.
        suffix: suffix such as ".parquet". For dead letters, `DEAD` and the name of the stage. For a
            cut, `CUT`, the name of the stage, "@", and the slot of the task in its fan-out.
        size: size in bytes. In a shared file, the task's share; the shares add up to the file size.
        digest: blake2b-128 digest of the file's bytes.
        rows: number of rows of the task.
        part: position in a shared file, or None for a separate file.
    """

    token: bytes
    suffix: str
    size: int
    digest: bytes
    rows: int
    part: SharedPart | None = None

    @property
    def dead_stage(self) -> str | None:
        """The stage whose dead letters this file holds, or None for other files."""
        return self.suffix[len(DEAD) :] if self.suffix.startswith(DEAD) else None

    @property
    def cut(self) -> tuple[str, int] | None:
        """The stage whose output this cut stores, and the task's slot; None if the file is no cut.

        The slot is `NO_SLOT` if no fan-out precedes the stage.
        """
        if not self.suffix.startswith(CUT):
            return None
        stage, _, slot = self.suffix[len(CUT) :].rpartition("@")
        return stage, int(slot)

    @property
    def is_data(self) -> bool:
        """Return whether the file is data for readers, not dead letters or a cut."""
        # Use a slice, because the suffix may be empty.
        return self.suffix[:1] not in {DEAD, CUT}

    @property
    def is_companion(self) -> bool:
        """Return whether the file is a companion of a shared file, which counts the rows."""
        return self.part is not None and not self.rows


class PieceLocation(NamedTuple):
    """Location of a byte range: shard, position, size, and blake2b-128 digest."""

    shard: int
    offset: int
    size: int
    digest: bytes


class Piece(NamedTuple):
    """State that a stage gathered from one task.

    Attributes:
        stage: name of the stage.
        token: token of the task, which this stage settles.
        data: the state, or its location.
    """

    stage: str
    token: bytes
    data: bytes | PieceLocation


Left = Output | Piece
"""Result of a settled task. It counts only if its source is finished."""


Reasons = tuple[tuple[str, int], ...]
"""Numbers of dropped rows by reason."""

# Prefix of the names of counters that count dropped rows by reason.
DROPPED = "dropped: "
# Stands for the source stage in efforts: if the root task of a source is a table, the table's rows
# enter the pipeline here. Any other root task counts as one row, and is not reported.
ROOT = ""


class Effort(NamedTuple):
    """The work of a stage for a source. Efforts of the same stage can be added.

    Without measurement, a call is reported only if it changed the row count, or dropped rows for a
    reason. Then `rows_in` and `rows_out` cover these calls only, and only their difference is
    meaningful.

    Attributes:
        rows_in, rows_out: row counts of the source's tasks, before and after the stage.
        seconds: time in the stage's own code, shared within a batch by rows; None if unmeasured.
        size: total bytes of the output tables; for a sink, of the files.
        reasons: dropped rows by reason.
    """

    stage: str
    rows_in: int
    rows_out: int
    seconds: float | None = None
    size: int = 0
    reasons: Reasons = ()

    def add(self, other: Effort) -> Effort:
        """Return the sum of both efforts, with the stage name of this effort."""
        return Effort(
            self.stage,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            _add_seconds(self.seconds, other.seconds),
            self.size + other.size,
            add_reasons(self.reasons, other.reasons),
        )


class RowChange(NamedTuple):
    """How a stage changed the row count of a source.

    Attributes:
        rows: rows out minus rows in.
        reasons: dropped rows, by reason.
    """

    stage: str
    rows: int
    reasons: Reasons = ()


Work = tuple[tuple[Effort, ...], tuple[RowChange, ...]]
NO_EFFORTS: Work = (), ()


# Names of the stages that a redo or a retry adds to a pipeline. Users see these names next to their
# own stages' names. The spaces prevent a clash: names of user stages have no spaces.
READ_BACK, READ_DEAD_LETTERS = "read kept output", "read dead letters"


def name_cut_stage(stage: str) -> str:
    """Return the name of the added stage that stores the output of `stage`."""
    return f"keep output of {stage}"


def is_added(stage: str) -> bool:
    """Return whether the runtime added the stage, so that the user's pipeline does not have it."""
    return " " in stage


def split_work(efforts: Iterable[Effort]) -> Work:
    """Split the efforts of a source into measured work and row changes."""
    known = [effort for effort in efforts if not is_added(effort.stage)]
    return (
        tuple(each._replace(reasons=()) for each in known if each.seconds is not None),
        tuple(
            RowChange(each.stage, each.rows_out - each.rows_in, each.reasons)
            for each in known
            if each.rows_out != each.rows_in or each.reasons
        ),
    )


def add_changes(first: Iterable[RowChange], second: Iterable[RowChange]) -> tuple[RowChange, ...]:
    """Add two lists of row changes, stage by stage."""
    known = {change.stage: change for change in first}
    for stage, rows, reasons in second:
        before = known.get(stage, RowChange(stage, 0))
        known[stage] = RowChange(stage, before.rows + rows, add_reasons(before.reasons, reasons))
    return tuple(change for change in known.values() if change.rows or change.reasons)


def add_reasons(first: Reasons, second: Reasons) -> Reasons:
    """Add two row counts by reason. The result is sorted by reason."""
    # Skip the sort in the usual case: most calls drop no rows.
    if not (first and second):
        return first or second
    total = dict(first)
    for reason, rows in second:
        total[reason] = total.get(reason, 0) + rows
    return tuple(sorted(total.items()))


def _add_seconds(first: float | None, second: float | None) -> float | None:
    # Keep measured seconds if the other value is unmeasured.
    if first is None or second is None:
        return second if first is None else first
    return first + second


def add_efforts(known: dict[str, Effort], efforts: Iterable[Effort]) -> None:
    """Add efforts to `known`, which holds the sum of efforts by stage."""
    for effort in efforts:
        before = known.get(effort.stage)
        known[effort.stage] = effort if before is None else before.add(effort)


class Event(NamedTuple):
    """A change of the count: `settled` tokens became `children` (empty if filtered or written).

    A source's first event settles nothing and announces the root as its only child. If an event
    settles the root and announces the root again, all earlier events of the source are revoked, and
    the source starts again.

    Attributes:
        efforts: work for the source since its previous event, counted with this event.
    """

    source: bytes
    settled: tuple[bytes, ...]
    children: tuple[bytes, ...]
    outputs: tuple[Left, ...] = ()
    efforts: tuple[Effort, ...] = ()


class Failure(NamedTuple):
    """A source that can't be finished in this attempt, and the reason.

    Attributes:
        cause: a cause from the API's list; empty for an error of the stage.
    """

    source: bytes
    key: str
    token: bytes
    stage: str
    message: str
    cause: str = ""


class EmittedTask(NamedTuple):
    """A task that is passed on: its position in the call's data, its lineage, and its destination.

    Attributes:
        link: 0 for the stage that follows the call. Within a chain of stages in one call, the index
            of the next stage of the chain.
    """

    position: int
    source: bytes
    token: bytes
    origin: Origin | None
    link: int = 0


class UniformFailure(NamedTuple):
    """A task whose rows all failed for the same reason.

    Attributes:
        source, key: digest and key of the task's source.
        rows: number of rows.
        message: message of the first row's failure.
        fails_source: whether the source fails; otherwise the rows become dead letters or are
            dropped.
    """

    source: bytes
    key: str
    rows: int
    message: str
    fails_source: bool


@dataclass(slots=True)
class StageCounts:
    """Totals of a stage.

    Attributes:
        tasks_in, tasks_out, filtered, failed: task counts.
        rows_in, rows_out: counts of table rows.
        dead, dropped: counts of rows that raised an error: dead letters, and dropped rows.
        waited: seconds in which the stage waited for a service; part of `seconds`.
        uniform: the first task whose rows all failed for the same reason, or None.
        seconds: time in the stage's own code, without setup, waiting for input, and transport.
        counters: the stage's own counters by name.
        calls: number of calls to workers; a call may have several batches.
        size: bytes of written files, for a sink.
    """

    tasks_in: int = 0
    tasks_out: int = 0
    filtered: int = 0
    failed: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    size: int = 0
    dead: int = 0
    dropped: int = 0
    waited: float = 0.0
    uniform: UniformFailure | None = None

    def add(self, other: StageCounts) -> None:
        """Add the counts of another call to this object."""
        self.tasks_in += other.tasks_in
        self.tasks_out += other.tasks_out
        self.filtered += other.filtered
        self.failed += other.failed
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.seconds += other.seconds
        self.calls += other.calls
        self.size += other.size
        self.dead += other.dead
        self.dropped += other.dropped
        self.waited += other.waited
        self.uniform = self.uniform or other.uniform
        for name, number in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + number


class Receipt(NamedTuple):
    """The complete report of one call.

    Attributes:
        events: read-only.
        counts: totals of the whole call.
        efforts: work by source, if requested.
        links: totals by stage index, if the call ran a chain of stages.
        gone: fan-outs that were filtered in the call: token and slot, with the source.
    """

    events: Sequence[Event]
    failures: tuple[Failure, ...]
    emitted: tuple[EmittedTask, ...]
    counts: StageCounts
    efforts: tuple[tuple[bytes, Effort], ...] = ()
    links: tuple[tuple[int, StageCounts], ...] = ()
    gone: tuple[tuple[Origin, bytes], ...] = ()

    @property
    def has_failures(self) -> bool:
        """Return whether a task or a row of the call has failed."""
        counts = [self.counts, *(each for _, each in self.links)]
        return bool(self.failures) or any(each.dead + each.dropped for each in counts)
