"""What is shown of a running attempt, as plain data: taken from an engine, read by every view.

Pure: the time comes in as seconds since the attempt began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from strandline.engine.flow import StageQueue
from strandline.engine.pools import PoolState
from strandline.engine.ports import Progress
from strandline.plan.receipt import Counts

WINDOW_SECONDS = 30.0
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

    @property
    def seconds_left(self) -> float | None:
        """How long the rest will take; None before the listing has ended or a rate is known."""
        if not self.is_listed or not self.rate:
            return None
        return (self.listed - self.skipped - self.finished - self.failed) / self.rate


class Pace:
    """Measures how many sources are done a second, and what each stage does."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self._stages: dict[tuple[str, str], Pace] = {}

    def begin(self, seconds: float) -> None:
        """Start to measure now; what came before was no work on sources."""
        self._points = deque([(seconds, 0.0)])
        self._stages.clear()

    def of_stage(self, name: str, what: str) -> Pace:
        """The pace of something that a stage does, measured since it was first asked for."""
        return self._stages.setdefault((name, what), Pace())

    def measure(self, seconds: float, done: float) -> float:
        """Note that so much is done by now; returns how much a second of late."""
        self._points.append((seconds, done))
        while self._points[1][0] < seconds - WINDOW_SECONDS:
            self._points.popleft()
        begun, before = self._points[0]
        return (done - before) / (seconds - begun) if seconds > begun else 0.0


def take_snapshot(progress: Progress, seconds: float, pace: Pace) -> Snapshot:
    """What an engine's progress amounts to, `seconds` after the attempt began."""
    failed = len(progress.flow.failed)
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
    )


def _view_stages(progress: Progress, seconds: float, pace: Pace) -> Iterator[StageView]:
    pools = progress.list_pools()
    for place, queue in enumerate(progress.flow.queues):
        pool = pools[place] if pools else PoolState()
        yield StageView(
            queue.name,
            queue.counts.tasks_in,
            queue.counts.tasks_out,
            len(queue),
            queue.running,
            queue.counts.failed,
            pool,
            pace.of_stage(queue.name, "tasks").measure(seconds, queue.counts.tasks_in),
            _measure_utilisation(queue, pool, seconds, pace),
        )


def _measure_utilisation(queue: StageQueue, pool: PoolState, seconds: float, pace: Pace) -> float:
    # A long call counts while it is under way; its end corrects what is too much of that.
    busy = queue.counts.seconds + pool.under_way
    worked = pace.of_stage(queue.name, "busy").measure(seconds, busy)
    ready = pace.of_stage(queue.name, "ready").measure(seconds, pool.seconds)
    return min(1.0, max(0.0, worked / ready)) if ready > 0 else 0.0


def spell_pool(pool: PoolState) -> dict[str, int]:
    """A stage's workers and what has become of them; the keys are stable."""
    return {key: getattr(pool, name) for name, key in _POOL_KEYS.items()}


def _spell_fates(pool: PoolState) -> dict[str, int]:
    return {"started": pool.started, "lost": pool.lost, "recycled": pool.recycled}


def spell_json(snapshot: Snapshot) -> dict[str, Any]:
    """A line of `run --json`; its keys are stable."""
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
        },
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
                **spell_pool(stage.pool),
            }
            for stage in snapshot.stages
        ],
        "incidents": snapshot.incidents,
        "bottleneck": snapshot.bottleneck,
        "dashboard": snapshot.dashboard,
    }


def parse_json(content: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `spell_json` has spelled; what an older version did not say is zero."""
    sources: Mapping[str, Any] = content.get("sources") or {}
    return Snapshot(
        seconds=content.get("seconds", 0.0),
        listed=sources.get("listed", 0),
        is_listed=sources.get("total") is not None,
        skipped=sources.get("skipped", 0),
        finished=sources.get("finished", 0),
        failed=sources.get("failed", 0),
        rate=content.get("rate", 0.0),
        stages=tuple(map(_parse_stage, content.get("stages") or ())),
        incidents=content.get("incidents", 0),
        bottleneck=content.get("bottleneck"),
    )


def _parse_stage(content: Mapping[str, Any]) -> StageView:
    return StageView(
        name=str(content.get("name")),
        tasks_in=content.get("tasksIn", 0),
        tasks_out=content.get("tasksOut", 0),
        waiting=content.get("waiting", 0),
        running=content.get("running", 0),
        failed=content.get("failed", 0),
        pool=PoolState(**{name: content.get(key, 0) for name, key in _POOL_KEYS.items()}),
        rate=content.get("rate", 0.0),
        utilisation=content.get("utilisation", 0.0),
    )


def spell_counts(counts: dict[str, Counts], pools: Mapping[str, PoolState]) -> list[dict[str, Any]]:
    """What went through each stage, for the last line of `run --json`; the keys are stable.

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
            **({"calls": each.calls, **_spell_fates(pools[name])} if name in pools else {}),
        }
        for name, each in counts.items()
    ]
