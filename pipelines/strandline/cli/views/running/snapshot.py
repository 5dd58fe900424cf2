"""A run at one moment, in the form that all views share.

This module does no I/O.
"""

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
# Minimum seconds of a reliable measurement: in a shorter time, the start of workers dominates.
PROMISING_SECONDS = 10.0
LEAST_RATE = 1e-9  # at a lower rate, no remaining time is estimated


class StageView(NamedTuple):
    """State of a stage, with the number of tasks that are received, produced, waiting, and running.

    Attributes:
        failed: number of failed tasks.
        pool: the stage's workers.
        rate: tasks per second in the last half minute.
        utilisation: share of their time that ready workers spent on tasks in the last half minute.
        dead, dropped: rows that failed without failing their source: dead letters and dropped rows.
        requests: requests to a model.
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
    """Rows that an attempt has processed so far.

    Attributes:
        read: rows from the first stage that produces rows.
        written: rows written by the sink, including rows of unfinished sources.
        size: bytes written by the sink.
    """

    read: int = 0
    written: int = 0
    size: int = 0


NO_ROWS = RowsDone()


class Snapshot(NamedTuple):
    """An attempt at one moment.

    Attributes:
        seconds: time since the attempt began.
        listed: number of sources listed so far; the total if `is_listed`.
        skipped: number of listed sources that an earlier attempt finished.
        finished, failed: number of sources that this attempt finished or failed.
        rate: sources finished or failed per second in the last half minute.
        stages: stages in pipeline order.
        incidents: number of workers that were lost and replaced.
        bottleneck: stage that limits the pace, or None.
        dashboard: host and port of Ray's dashboard, or None.
        quarantined: number of listed sources that are no longer tried.
        measured: seconds covered by the rate.
        work: seconds of work, and seconds of repeated work.
        rows: rows of the attempt so far.
        note: latest sentence for people, such as a wait for a server; may be empty.
        redone: number of finished sources of an older recipe that are replaced.
        redo_reason: first replaced stage and cause of the replacement; empty if there is no
            replacement.
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
        """Return the estimated remaining seconds.

        Return None until the listing is complete and the rate is reliable.
        """
        is_known = self.measured >= PROMISING_SECONDS and self.rate >= LEAST_RATE
        if not (self.is_listed and is_known):
            return None
        done = self.skipped + self.quarantined + self.finished + self.failed
        return (self.listed - done) / self.rate


# Snapshot before the first measurement.
STARTING = Snapshot(
    0.0, 0, is_listed=False, skipped=0, finished=0, failed=0, rate=0.0, stages=(), incidents=0
)


class Pace:
    """Measures the rate of sources, and the rates of each stage."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self._stages: dict[tuple[str, str], Pace] = {}

    @property
    def measured(self) -> float:
        """Return the duration of the last measurement in seconds."""
        return self._points[-1][0] - self._points[0][0]

    def begin(self, seconds: float, done: float = 0.0) -> None:
        """Start measuring now. The time before was not spent on sources, so it does not count."""
        self._points = deque([(seconds, done)])
        self._stages.clear()

    def measure_stage(self, name: str, what: str, seconds: float, done: float) -> float:
        """Return the recent rate of a stage's work per second, since this measurement began."""
        pace = self._stages.get((name, what))
        if pace is None:
            pace, begun = Pace(), self._points[0][0]
            # Do not count work from before this pace began, such as the start of the stage's
            # workers.
            pace.begin(begun, done if seconds <= begun else 0.0)
            self._stages[name, what] = pace
        return pace.measure(seconds, done)

    def measure(self, seconds: float, done: float) -> float:
        """Record the total amount of finished work. Return the recent rate per second."""
        self._points.append((seconds, done))
        # Keep the last point before the window, so that the points cover the whole window.
        while self._points[1][0] < seconds - WINDOW_SECONDS:
            self._points.popleft()
        begun, before = self._points[0]
        return (done - before) / (seconds - begun) if seconds > begun else 0.0


def take_snapshot(progress: RunProgress, seconds: float, pace: Pace) -> Snapshot:
    """Return a snapshot of an engine's progress, `seconds` after the attempt began."""
    failed = progress.failed
    # Start measuring with the first listed source: the start of Ray would lower the rate.
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
    # Use the first stage that counts rows, because earlier stages may produce whole files.
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
    # Count the whole time of running calls as work. When a call ends, its exact time replaces the
    # estimate.
    busy = stage.counts.seconds + pool.under_way
    worked = pace.measure_stage(stage.name, "busy", seconds, busy)
    ready = pace.measure_stage(stage.name, "ready", seconds, pool.seconds)
    return min(1.0, max(0.0, worked / ready)) if ready > 0 else 0.0
