"""Receipts of stage calls, in the terms of the counting law.

A receipt travels with its data: either both reach the driver, or neither does. A receipt is plain
data and must not depend on the tally or the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # readers of ledgers need not load tasks
    from strandline.plan.task import Origin


# Suffixes of sinks never begin with one of these characters.
DEAD, CUT = "!", "+"
NO_SLOT = -1


class SharedPart(NamedTuple):
    """Position of a task's rows in a file that several sources share.

    Attributes:
        file: name of the file; see `derive_shared`.
        begin: number of the task's first row.
        size, rows: size in bytes and rows of the whole file.
    """

    file: bytes
    begin: int
    size: int
    rows: int


class Output(NamedTuple):
    """Durable output of a sink for one task: a file, or a part of a shared file.

    Attributes:
        token: token of the written task; token and suffix together are the name of the task's file.
        suffix: such as ".parquet". For dead letters, `DEAD` and the name of the stage. For a cut,
            `CUT`, the name of the stage, "@", and the slot of the task in its fan-out.
        size: bytes; in a shared file the task's share. The shares add up to the size of the file.
        digest: blake2b-128 of the file's bytes.
        rows: rows of the task.
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
        """Return the stage if the receipt is of dead letters, or None."""
        return self.suffix[len(DEAD) :] if self.suffix.startswith(DEAD) else None

    @property
    def cut(self) -> tuple[str, int] | None:
        """Return the stage before the cut and the task's slot, or None for other receipts.

        The slot is `NO_SLOT` without a fan-out before the stage.
        """
        if not self.suffix.startswith(CUT):
            return None
        stage, _, slot = self.suffix[len(CUT) :].rpartition("@")
        return stage, int(slot)

    @property
    def is_data(self) -> bool:
        """Return whether the file is data for readers."""
        # A slice, because a suffix may be empty.
        return self.suffix[:1] not in {DEAD, CUT}

    @property
    def is_companion(self) -> bool:
        """Return whether the file accompanies a shared file that already counts its rows."""
        return self.part is not None and not self.rows


class PieceLocation(NamedTuple):
    """Location of bytes: shard, position, size, and blake2b-128."""

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
"""What a settled task leaves behind; it counts when its source is finished, and only then."""


Reasons = tuple[tuple[str, int], ...]
"""Rows by the reason for which a stage dropped them."""

# Prefix of the names of counters that count dropped rows by reason.
DROPPED = "dropped: "
# Represents the source stage if the root task of a source is a table: its rows enter the pipeline.
# Any other root task counts as one row, and is not reported.
ROOT = ""


class Effort(NamedTuple):
    """Work of a stage for a source; the efforts of a stage add up.

    Without measurement, a call is reported only if it changed the number of rows, or dropped rows
    for a reason. Then `rows_in` and `rows_out` cover these calls only, and only their difference is
    meaningful.

    Attributes:
        rows_in, rows_out: rows of the source's tasks.
        seconds: time in the stage's own code, shared within a batch by rows; None if unmeasured.
        size: bytes of the output tables; for a sink, of the files.
        reasons: dropped rows by reason.
    """

    stage: str
    rows_in: int
    rows_out: int
    seconds: float | None = None
    size: int = 0
    reasons: Reasons = ()

    def add(self, other: Effort) -> Effort:
        """Return the sum of both efforts, with the stage of this effort."""
        return Effort(
            self.stage,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            _add_seconds(self.seconds, other.seconds),
            self.size + other.size,
            add_reasons(self.reasons, other.reasons),
        )


class RowChange(NamedTuple):
    """Change of the number of a source's rows by a stage.

    Attributes:
        rows: rows out minus rows in.
        reasons: dropped rows, by reason.
    """

    stage: str
    rows: int
    reasons: Reasons = ()


Work = tuple[tuple[Effort, ...], tuple[RowChange, ...]]
NO_EFFORTS: Work = (), ()


# Names of stages that a redo or a retry adds to a pipeline. Users see these names next to the names
# of their own stages; the space makes them distinct.
READ_BACK, READ_DEAD_LETTERS = "read kept output", "read dead letters"


def name_cut_stage(stage: str) -> str:
    """Return the name of the stage that keeps the output of another stage."""
    return f"keep output of {stage}"


def is_added(stage: str) -> bool:
    """Return whether a stage was added, and is missing in the user's pipeline."""
    return " " in stage


def split_work(efforts: Iterable[Effort]) -> Work:
    """Split the efforts of a source into measured work and changes of rows."""
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
    """Return the sum of two lists of changes, by stage."""
    known = {change.stage: change for change in first}
    for stage, rows, reasons in second:
        before = known.get(stage, RowChange(stage, 0))
        known[stage] = RowChange(stage, before.rows + rows, add_reasons(before.reasons, reasons))
    return tuple(change for change in known.values() if change.rows or change.reasons)


def add_reasons(first: Reasons, second: Reasons) -> Reasons:
    """Return the sum of two counts by reason, in order of the reasons."""
    # Most calls drop no rows, so avoid the sort.
    if not (first and second):
        return first or second
    total = dict(first)
    for reason, rows in second:
        total[reason] = total.get(reason, 0) + rows
    return tuple(sorted(total.items()))


def _add_seconds(first: float | None, second: float | None) -> float | None:
    # Unmeasured seconds must not hide measured seconds.
    if first is None or second is None:
        return second if first is None else first
    return first + second


def add_efforts(known: dict[str, Effort], efforts: Iterable[Effort]) -> None:
    """Add efforts to the known efforts, by stage."""
    for effort in efforts:
        before = known.get(effort.stage)
        known[effort.stage] = effort if before is None else before.add(effort)


class Event(NamedTuple):
    """A change of the count: `settled` tokens became `children` (empty if filtered or written).

    A source's first event settles nothing and announces the root as its only child. An event in
    which the root becomes itself revokes all earlier events of the source, which starts again.

    Attributes:
        efforts: work for the source since its previous event, counted with this event.
    """

    source: bytes
    settled: tuple[bytes, ...]
    children: tuple[bytes, ...]
    outputs: tuple[Left, ...] = ()
    efforts: tuple[Effort, ...] = ()


class Failure(NamedTuple):
    """A source that can't be finished in this attempt, and why.

    Attributes:
        cause: a word of the API's list of causes; empty for an error of the stage.
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
        link: 0 for the stage after those of the call. In a call of a chain, the number of the next
            stage within the chain.
    """

    position: int
    source: bytes
    token: bytes
    origin: Origin | None
    link: int = 0


class UniformFailure(NamedTuple):
    """A task whose rows all failed for the same reason.

    Attributes:
        source, key: source and key of the task.
        rows: number of rows.
        message: message of the first row's failure.
        fails_source: the source fails; otherwise the rows become dead letters or are dropped.
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
        tasks_in, tasks_out, filtered, failed: numbers of tasks.
        rows_in, rows_out: numbers of table rows.
        dead, dropped: rows that raised an error and became dead letters, or were dropped.
        waited: seconds in which the stage waited for a service; part of `seconds`.
        uniform: the first task whose rows all failed for the same reason, or None.
        seconds: time in the stage's own code, without setup, waiting for input, and transport.
        counters: the stage's own counters by name.
        calls: calls of workers, each with one batch or several.
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
        """Add another call's counts to these."""
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
        links: in a call of a chain, the totals of its stages by their number in the chain.
        gone: tokens and slots of fan-outs that were filtered in the call, with their source.
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
