"""A run at one moment, as all views of it show it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from strandline.data.statistics.request_figures import (
    NO_REQUESTS,
    RequestFigures,
    read_figures,
)
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import NO_WORK, RunProgress, WorkCost
from strandline.engine.flow.stage_queue import StageStanding

WINDOW_SECONDS = 30.0
# Until a run was measured so long, the start of workers is most of its rate.
PROMISING_SECONDS = 10.0
LEAST_RATE = 1e-9  # a slower run has no end in sight


class StageView(NamedTuple):
    """One stage: tasks that went in and came out, that wait for it and that are with a worker.

    Attributes:
        failed: tasks.
        pool: its workers.
        rate: tasks a second, over the last half minute.
        utilisation: share of its ready workers' time that was spent on tasks, over the same.
        dead, dropped: rows that failed alone, by what became of them.
        requests: that it has made to a model.
    """

    name: str
    tasks_in: int
    tasks_out: int
    waiting: int
    running: int
    failed: int = 0
    pool: PoolState = PoolState()
    rate: float = 0.0
    utilisation: float = 0.0
    dead: int = 0
    dropped: int = 0
    requests: RequestFigures = NO_REQUESTS


class RowsDone(NamedTuple):
    """Rows that went through an attempt so far.

    Attributes:
        read: that the first stage which makes rows has made.
        written: that the sink has written, of sources that are not finished too.
        size: bytes of what it has written.
    """

    read: int = 0
    written: int = 0
    size: int = 0


NO_ROWS = RowsDone()


class Snapshot(NamedTuple):
    """An attempt at one moment.

    Attributes:
        seconds: since it began.
        listed: sources listed; all there are where `is_listed`.
        skipped: listed sources that an earlier attempt had finished.
        finished, failed: sources, by this attempt.
        rate: sources finished or failed a second, over the last half minute.
        stages: in pipeline order.
        incidents: workers that were lost and replaced.
        bottleneck: the stage that sets the pace; None where none does, or it is not known.
        dashboard: host and port of Ray's own; None where there is none.
        quarantined: listed sources that are not tried any more.
        measured: seconds over which the rate is.
        work: seconds that it took, and those of them that are done again.
        rows: how much went through it.
        note: the last sentence for people, such as that a server is waited for; empty: none.
        redone: finished sources of an older recipe that are replaced.
        redo_reason: from where, and since what has changed; empty: there are none.
    """

    seconds: float
    listed: int
    is_listed: bool
    skipped: int
    finished: int
    failed: int
    rate: float
    stages: tuple[StageView, ...]
    incidents: int
    bottleneck: str | None = None
    dashboard: str | None = None
    quarantined: int = 0
    measured: float = WINDOW_SECONDS
    work: WorkCost = NO_WORK
    rows: RowsDone = NO_ROWS
    note: str = ""
    redone: int = 0
    redo_reason: str = ""

    @property
    def seconds_left(self) -> float | None:
        """Return how long the rest will take.

        None before the listing has ended or a rate is known well enough.
        """
        is_known = self.measured >= PROMISING_SECONDS and self.rate >= LEAST_RATE
        if not (self.is_listed and is_known):
            return None
        done = self.skipped + self.quarantined + self.finished + self.failed
        return (self.listed - done) / self.rate


# Before there is anything to know.
STARTING = Snapshot(
    0.0, 0, is_listed=False, skipped=0, finished=0, failed=0, rate=0.0, stages=(), incidents=0
)


class Pace:
    """Measures how many sources are done a second, and what each stage does."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self._stages: dict[tuple[str, str], Pace] = {}

    @property
    def measured(self) -> float:
        """Seconds over which the last measurement was."""
        return self._points[-1][0] - self._points[0][0]

    def begin(self, seconds: float, done: float = 0.0) -> None:
        """Start to measure now; what came before was no work on sources."""
        self._points = deque([(seconds, done)])
        self._stages.clear()

    def measure_stage(self, name: str, what: str, seconds: float, done: float) -> float:
        """Measure the same of something that a stage does, measured since this one began."""
        pace = self._stages.get((name, what))
        if pace is None:
            pace, begun = Pace(), self._points[0][0]
            # Workers of the stage may have been there before the first source was.
            pace.begin(begun, done if seconds <= begun else 0.0)
            self._stages[name, what] = pace
        return pace.measure(seconds, done)

    def measure(self, seconds: float, done: float) -> float:
        """Note that so much is done by now; returns how much a second of late."""
        self._points.append((seconds, done))
        while self._points[1][0] < seconds - WINDOW_SECONDS:
            self._points.popleft()
        begun, before = self._points[0]
        return (done - before) / (seconds - begun) if seconds > begun else 0.0


def take_snapshot(progress: RunProgress, seconds: float, pace: Pace) -> Snapshot:
    """Return what an engine's progress amounts to, `seconds` after the attempt began."""
    failed = progress.failed
    if not progress.listed:
        pace.begin(seconds)
    return Snapshot(
        seconds=seconds,
        listed=progress.listed,
        is_listed=progress.is_listed,
        skipped=progress.skipped,
        finished=progress.finished,
        failed=failed,
        rate=pace.measure(seconds, progress.finished + failed),
        stages=tuple(_view_stages(progress, seconds, pace)),
        incidents=len(progress.incidents),
        bottleneck=progress.bottleneck,
        dashboard=progress.dashboard,
        quarantined=progress.quarantined,
        measured=pace.measured,
        work=progress.measure_work(),
        rows=_count_rows(progress),
        note=progress.notes[-1] if progress.notes else "",
        redone=progress.redone,
        redo_reason=progress.redo_reason,
    )


def _count_rows(progress: RunProgress) -> RowsDone:
    counts = [stage.counts for stage in progress.flow.list_stages()]
    if not counts:
        return NO_ROWS
    read = next((each.rows_out for each in counts if each.rows_out), 0)
    return RowsDone(read, counts[-1].rows_out, counts[-1].size)


def _view_stages(progress: RunProgress, seconds: float, pace: Pace) -> Iterator[StageView]:
    pools = progress.list_pools()
    for index, stage in enumerate(progress.flow.list_stages()):
        pool, counts = pools[index] if pools else PoolState(), stage.counts
        yield StageView(
            stage.name,
            counts.tasks_in,
            counts.tasks_out,
            stage.waiting,
            stage.running,
            counts.failed,
            pool,
            pace.measure_stage(stage.name, "tasks", seconds, counts.tasks_in),
            _measure_utilisation(stage, pool, seconds, pace),
            counts.dead,
            counts.dropped,
            read_figures(counts.counters),
        )


def _measure_utilisation(
    stage: StageStanding, pool: PoolState, seconds: float, pace: Pace
) -> float:
    # A long call counts while it is under way; its end corrects what is too much of that.
    busy = stage.counts.seconds + pool.under_way
    worked = pace.measure_stage(stage.name, "busy", seconds, busy)
    ready = pace.measure_stage(stage.name, "ready", seconds, pool.seconds)
    return min(1.0, max(0.0, worked / ready)) if ready > 0 else 0.0
