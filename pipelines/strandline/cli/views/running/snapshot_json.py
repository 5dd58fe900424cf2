"""Converts a snapshot to plain data and back.

This module does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from strandline.cli.views.running.snapshot import (
    NO_ROWS,
    WINDOW_SECONDS,
    RowsDone,
    Snapshot,
    StageView,
)
from strandline.data.statistics.request_figures import (
    SHARES,
    RequestFigures,
)
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import WorkCost
from strandline.plan.receipt import StageCounts
from strandline.run.supervise.progress_reader import read_number
from strandline_api.outcome.work_lost import WorkLost

# Public JSON keys for the attributes of a stage's workers.
_POOL_KEYS = {
    "workers": "workers",
    "ready": "ready",
    "draining": "draining",
    "started": "started",
    "lost": "lost",
    "recycled": "recycled",
    "deaths": "lostInARow",
}


def render_pool(pool: PoolState) -> dict[str, int]:
    """Render a stage's workers with their history; the keys are stable."""
    return {key: getattr(pool, name) for name, key in _POOL_KEYS.items()}


def _render_parted(dead: int, dropped: int) -> dict[str, int]:
    """Render the numbers of dead letters and dropped rows. Omit zeros, as older releases do."""
    counts = {"deadRows": dead, "droppedRows": dropped}
    return {key: number for key, number in counts.items() if number}


def _render_requests(figures: RequestFigures) -> dict[str, Any]:
    """Render requests to a model. Return an empty object for a stage without requests."""
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
            # A response time beyond the last histogram bound has no finite value.
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
    """Render seconds of work and of repeated work. Return an empty object without measurements."""
    if not work.worked:
        return {}
    return {"workSeconds": round(work.worked, 3), "workLost": work.lost.to_json()}


def parse_work(content: Mapping[str, Any]) -> WorkCost:
    """Return the work from the result of `render_work`; invalid values are zero."""
    lost = {
        name: max(0.0, float(read_number(seconds)))
        for name, seconds in _object(content.get("workLost")).items()
        # Skip unknown causes, which newer releases may report.
        if name in WorkLost.model_fields
    }
    return WorkCost(max(0.0, float(read_number(content.get("workSeconds")))), WorkLost(**lost))


def parse_json(content: object) -> Snapshot:
    """Return the snapshot from the result of `render_snapshot`.

    Invalid and missing values, for example from an older version, become zero.
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
        # The JSON does not contain the duration of the measurement, but only a reliable rate yields
        # a remaining time.
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
    """Return the counts of each stage for the last line of `run --json`. The keys are stable.

    Args:
        pools: workers of the stages, by name. Stages without workers are absent.
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
