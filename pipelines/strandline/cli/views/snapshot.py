"""What is shown of a running attempt, as plain data: taken from an engine, read by every view.

Pure: the time comes in as seconds since the attempt began.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from strandline.data.statistics.request_figures import (
    NO_REQUESTS,
    SHARES,
    RequestFigures,
    read_figures,
)
from strandline.engine.core.flow import StageStanding
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import NO_WORK, RunProgress, WorkCost
from strandline.plan.receipt import StageCounts
from strandline.run.supervise.status_server import read_number
from strandline_api.outcome.work_lost import WorkLost

WINDOW_SECONDS = 30.0
# Until a run was measured so long, the start of workers is most of its rate.
PROMISING_SECONDS = 10.0
LEAST_RATE = 1e-9  # a slower run has no end in sight
# Attributes of a stage's workers by the keys under which scripts read them.
_POOL_KEYS = {
    "workers": "workers",
    "ready": "ready",
    "draining": "draining",
    "started": "started",
    "lost": "lost",
    "recycled": "recycled",
    "deaths": "lostInARow",
}


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


def render_pool(pool: PoolState) -> dict[str, int]:
    """Render a stage's workers and what has become of them; the keys are stable."""
    return {key: getattr(pool, name) for name, key in _POOL_KEYS.items()}


def _render_parted(dead: int, dropped: int) -> dict[str, int]:
    """Render rows that failed alone; of a stage that has none nothing, as before there were any."""
    counts = {"deadRows": dead, "droppedRows": dropped}
    return {key: number for key, number in counts.items() if number}


def _render_requests(figures: RequestFigures) -> dict[str, Any]:
    """Render requests to a model; nothing of a stage that makes none."""
    if not figures.has_any:
        return {}
    names = (f"p{share * 100:.0f}" for share in SHARES)
    times = zip(names, figures.times, strict=False)
    return {
        "requests": {
            "sent": figures.sent,
            "fromLog": figures.from_log,
            "promptTokens": figures.prompt_tokens,
            "completionTokens": figures.completion_tokens,
            "cost": figures.cost,
            # Beyond the last bound there is no number that could be told.
            "seconds": {name: None if math.isinf(time) else time for name, time in times},
        }
    }


def _parse_requests(content: Mapping[str, Any]) -> RequestFigures:
    cost, seconds = content.get("cost"), _object(content.get("seconds"))
    return RequestFigures(
        _count(content.get("sent")),
        _count(content.get("fromLog")),
        _count(content.get("promptTokens")),
        _count(content.get("completionTokens")),
        None if cost is None else float(read_number(cost)),
        tuple(math.inf if each is None else float(read_number(each)) for each in seconds.values()),
    )


def _render_fates(pool: PoolState) -> dict[str, int]:
    return {"started": pool.started, "lost": pool.lost, "recycled": pool.recycled}


def render_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Render a line of `run --json`; its keys are stable."""
    left = snapshot.seconds_left
    return {
        "event": "progress",
        "seconds": round(snapshot.seconds, 3),
        "sources": {
            "listed": snapshot.listed,
            "total": snapshot.listed if snapshot.is_listed else None,
            "finished": snapshot.finished,
            "failed": snapshot.failed,
            "skipped": snapshot.skipped,
            "quarantined": snapshot.quarantined,
            **({"redone": snapshot.redone} if snapshot.redone else {}),
        },
        "rows": snapshot.rows._asdict(),
        "rate": round(snapshot.rate, 3),
        "secondsLeft": None if left is None else round(left, 1),
        "stages": [
            {
                "name": stage.name,
                "tasksIn": stage.tasks_in,
                "tasksOut": stage.tasks_out,
                "waiting": stage.waiting,
                "running": stage.running,
                "failed": stage.failed,
                "rate": round(stage.rate, 3),
                "utilisation": round(stage.utilisation, 3),
                "oldestCall": round(stage.pool.oldest, 1),
                "oldestOver": stage.pool.over,
                **render_pool(stage.pool),
                **_render_parted(stage.dead, stage.dropped),
                **_render_requests(stage.requests),
            }
            for stage in snapshot.stages
        ],
        "incidents": snapshot.incidents,
        "bottleneck": snapshot.bottleneck,
        "dashboard": snapshot.dashboard,
        **({"note": snapshot.note} if snapshot.note else {}),
        **({"redoReason": snapshot.redo_reason} if snapshot.redo_reason else {}),
        **render_work(snapshot.work),
    }


def render_work(work: WorkCost) -> dict[str, Any]:
    """Render seconds of work, and those that are done again; nothing where none are known."""
    if not work.worked:
        return {}
    return {"workSeconds": round(work.worked, 3), "workLost": work.lost.to_json()}


def parse_work(content: Mapping[str, Any]) -> WorkCost:
    """Return what `render_work` has rendered; what has another shape is zero."""
    lost = {
        name: max(0.0, float(read_number(seconds)))
        for name, seconds in _object(content.get("workLost")).items()
        if name in WorkLost.model_fields
    }
    return WorkCost(max(0.0, float(read_number(content.get("workSeconds")))), WorkLost(**lost))


def parse_json(content: object) -> Snapshot:
    """Return the snapshot that `render_snapshot` has rendered.

    What an older version did not say is zero, and so is what has another shape.
    """
    found = _object(content)
    sources, stages = _object(found.get("sources")), found.get("stages")
    return Snapshot(
        seconds=read_number(found.get("seconds")),
        listed=_count(sources.get("listed")),
        is_listed=sources.get("total") is not None,
        skipped=_count(sources.get("skipped")),
        finished=_count(sources.get("finished")),
        failed=_count(sources.get("failed")),
        rate=read_number(found.get("rate")),
        stages=tuple(
            _parse_stage(stage)
            for stage in (stages if isinstance(stages, list) else ())
            if isinstance(stage, Mapping)
        ),
        incidents=_count(found.get("incidents")),
        bottleneck=_name(found.get("bottleneck")),
        quarantined=_count(sources.get("quarantined")),
        redone=_count(sources.get("redone")),
        measured=WINDOW_SECONDS if found.get("secondsLeft") is not None else 0.0,
        work=parse_work(found),
        rows=RowsDone(
            **{name: _count(_object(found.get("rows")).get(name)) for name in NO_ROWS._fields}
        ),
        note=_name(found.get("note")) or "",
        redo_reason=_name(found.get("redoReason")) or "",
    )


def _parse_stage(content: Mapping[str, Any]) -> StageView:
    return StageView(
        name=str(content.get("name")),
        tasks_in=_count(content.get("tasksIn")),
        tasks_out=_count(content.get("tasksOut")),
        waiting=_count(content.get("waiting")),
        running=_count(content.get("running")),
        failed=_count(content.get("failed")),
        pool=PoolState(
            **{name: _count(content.get(key)) for name, key in _POOL_KEYS.items()},
            oldest=read_number(content.get("oldestCall")),
            over=_name(content.get("oldestOver")) or "",
        ),
        rate=read_number(content.get("rate")),
        utilisation=read_number(content.get("utilisation")),
        dead=_count(content.get("deadRows")),
        dropped=_count(content.get("droppedRows")),
        requests=_parse_requests(_object(content.get("requests"))),
    )


def _count(value: object) -> int:
    return int(read_number(value))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def render_counts(
    counts: dict[str, StageCounts], pools: Mapping[str, PoolState]
) -> list[dict[str, Any]]:
    """Return what went through each stage, for the last line of `run --json`; the keys are stable.

    Args:
        pools: workers of the stages that have any.
    """
    return [
        {
            "name": name,
            "tasksIn": each.tasks_in,
            "tasksOut": each.tasks_out,
            "filtered": each.filtered,
            "failed": each.failed,
            "rowsIn": each.rows_in,
            "rowsOut": each.rows_out,
            "seconds": round(each.seconds, 3),
            "counters": each.counters,
            **_render_parted(each.dead, each.dropped),
            **({"calls": each.calls, **_render_fates(pools[name])} if name in pools else {}),
        }
        for name, each in counts.items()
    ]
