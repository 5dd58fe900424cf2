"""What a stage call did, in the words of the counting law.

A receipt goes with the data it speaks of: either both reach the driver or neither does. It is plain
data; it knows neither the tally nor the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a reader of ledgers need not load what tasks are made of
    from strandline.plan.task import Origin


# No suffix of a sink begins with one of these.
DEAD, CUT = "!", "+"
NO_SLOT = -1


class SharedPart(NamedTuple):
    """Where a task's rows are in a file that several sources share.

    Attributes:
        file: name of the file; see `derive_shared`.
        begin: number of the first of its rows.
        size, rows: of the whole file.
    """

    file: bytes
    begin: int
    size: int
    rows: int


class Output(NamedTuple):
    """What a sink has written durably of one task: a file, or a part of one.

    Attributes:
        token: token of the task that was written; with the suffix it is the name of its own file.
        suffix: such as ".parquet"; of dead letters `DEAD` and the name of their stage; of a cut
            `CUT`, the name of its stage, "@" and the slot of the task in its fan-out.
        size: bytes; of a shared file the task's share, all of which add up to the file's.
        digest: blake2b-128 of the file's bytes.
        rows: rows of the task.
        part: where they are in a shared file; None: the task has a file of its own.
    """

    token: bytes
    suffix: str
    size: int
    digest: bytes
    rows: int
    part: SharedPart | None = None

    @property
    def dead_stage(self) -> str | None:
        """Return the stage, of a receipt of its dead letters; None: it is data."""
        return self.suffix[len(DEAD) :] if self.suffix.startswith(DEAD) else None

    @property
    def cut(self) -> tuple[str, int] | None:
        """Return the stage that handed the task on and its slot, of a cut; None: it is data.

        The slot is `NO_SLOT` where no fan-out was above.
        """
        if not self.suffix.startswith(CUT):
            return None
        stage, _, slot = self.suffix[len(CUT) :].rpartition("@")
        return stage, int(slot)

    @property
    def is_data(self) -> bool:
        """Return whether the sink has written it for readers."""
        return self.suffix[:1] not in {DEAD, CUT}

    @property
    def is_companion(self) -> bool:
        """Return whether it is of a file beside a shared one, in which its rows are counted."""
        return self.part is not None and not self.rows


class PieceLocation(NamedTuple):
    """Where bytes lie: in which shard and where in it, how many they are, their blake2b-128."""

    shard: int
    offset: int
    size: int
    digest: bytes


class Piece(NamedTuple):
    """What a stage has gathered of one task.

    Attributes:
        stage: its name.
        token: of the task, which this stage settles.
        data: as the stage gave it, or where it was put.
    """

    stage: str
    token: bytes
    data: bytes | PieceLocation


Left = Output | Piece
"""What a settled task leaves behind; it counts when its source is finished, and only then."""


Reasons = tuple[tuple[str, int], ...]
"""Rows by the reason for which a stage dropped them."""

# How stages begin the names of counters that count dropped rows by reason.
DROPPED = "dropped: "
# Stands for the source stage where the root task of a source is a table: its rows enter the
# pipeline. Any other root task counts as one row, and is not reported.
ROOT = ""


class Effort(NamedTuple):
    """Work of a stage for a source; several of one stage add up.

    Without measurement, only calls that changed the number of rows are reported, or that gave a
    reason for dropped rows. So `rows_in` and `rows_out` are then those of some calls, and only
    their difference means something.

    Attributes:
        rows_in, rows_out: rows of the source's tasks.
        seconds: of the stage's own code; those of a batch are shared out by rows. None: the stage
            is not measured.
        size: bytes of the tables that came out; of a sink, of the files.
        reasons: dropped rows, by reason.
    """

    stage: str
    rows_in: int
    rows_out: int
    seconds: float | None = None
    size: int = 0
    reasons: Reasons = ()

    def add(self, other: Effort) -> Effort:
        """Return both, of the stage of this one."""
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
        rows: rows out less rows in.
        reasons: dropped rows, by reason.
    """

    stage: str
    rows: int
    reasons: Reasons = ()


Work = tuple[tuple[Effort, ...], tuple[RowChange, ...]]
NO_EFFORTS: Work = (), ()


# Stages that a redo or a retry adds to those of a pipeline. Users see these names beside their
# own, which have no spaces.
READ_BACK, READ_DEAD_LETTERS = "read kept output", "read dead letters"


def name_cut_stage(stage: str) -> str:
    """Return the name of the stage that keeps the output of another one."""
    return f"keep output of {stage}"


def is_added(stage: str) -> bool:
    """Return whether a stage is none of the pipeline's own."""
    return " " in stage


def split_work(efforts: Iterable[Effort]) -> Work:
    """Return the measured efforts of a source, each of another stage, and its changes of rows."""
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
    """Return the sum of two counts by reason, in the order of the reasons."""
    if not (first and second):
        return first or second
    total = dict(first)
    for reason, rows in second:
        total[reason] = total.get(reason, 0) + rows
    return tuple(sorted(total.items()))


def _add_seconds(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def add_efforts(known: dict[str, Effort], efforts: Iterable[Effort]) -> None:
    """Add efforts to those that are known, by stage."""
    for effort in efforts:
        before = known.get(effort.stage)
        known[effort.stage] = effort if before is None else before.add(effort)


class Event(NamedTuple):
    """Something the ledger counts: `settled` tokens became `children` (none: filtered or written).

    A source's first event settles nothing and announces the root as its only child. One in which
    the root becomes itself takes back all that was said of the source: it begins anew.

    Attributes:
        efforts: for the source since its event before; counted where the event is.
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


class Emitted(NamedTuple):
    """A task that is handed on: its place in the call's data, its lineage, and where to.

    Attributes:
        link: 0: to the stage that follows those of the call. Else the call was of a chain, and the
            task is for the stage of that number in it.
    """

    position: int
    source: bytes
    token: bytes
    origin: Origin | None
    link: int = 0


class UniformFailure(NamedTuple):
    """A task of which every row has failed for one reason.

    Attributes:
        source, key: of the task.
        rows: of the task.
        message: of the first row's failure.
        fails_source: the source fails of it; else the rows are dead letters, or are left out.
    """

    source: bytes
    key: str
    rows: int
    message: str
    fails_source: bool


@dataclass(slots=True)
class StageCounts:
    """What went through a stage.

    Attributes:
        tasks_in, tasks_out, filtered, failed: tasks.
        rows_in, rows_out: rows of their tables.
        dead, dropped: rows that raised an error, and became dead letters or were left out.
        waited: seconds of these in which the stage waited for a service.
        uniform: the first task of which every row has failed for one reason, if there is one.
        seconds: time inside the stage's own code; not its set-up, nor waiting, nor transport.
        counters: the stage's own, by name.
        calls: of a worker, each with a batch or several.
        size: bytes of the files that it has written, of a sink.
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
    """All that one call has to say.

    Attributes:
        events: read-only.
        counts: of the call as a whole.
        efforts: by source; only where they are asked for.
        links: where the call was of a chain, the counts of its stages, by their number in it.
        gone: and slots of fan-outs that were filtered in it, with their source.
    """

    events: Sequence[Event]
    failures: tuple[Failure, ...]
    emitted: tuple[Emitted, ...]
    counts: StageCounts
    efforts: tuple[tuple[bytes, Effort], ...] = ()
    links: tuple[tuple[int, StageCounts], ...] = ()
    gone: tuple[tuple[Origin, bytes], ...] = ()

    @property
    def has_failures(self) -> bool:
        """Return whether a task or a row of the call has failed."""
        counts = [self.counts, *(each for _, each in self.links)]
        return bool(self.failures) or any(each.dead + each.dropped for each in counts)
