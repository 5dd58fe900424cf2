"""The workers of stages, as shown to scripts and users during an attempt and at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strandline.cli.views.running.snapshot import Pace, Snapshot, take_snapshot
from strandline.cli.views.running.snapshot_json import render_counts, render_snapshot
from strandline.cli.views.summary import Details, describe_outcome, render_outcome
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import RunProgress
from strandline.engine.flow.stage_queue import StageStanding
from strandline.ledger.records.entries import Standing
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

POOL = PoolState(workers=4, ready=3, draining=1, started=9, lost=2, recycled=1, deaths=2)


def take(
    pace: Pace, seconds: float, counts: StageCounts, pool: PoolState, listed: int = 5
) -> Snapshot:
    stages = [StageStanding("read", counts, 0, 0)]
    flow: Any = SimpleNamespace(failed=set(), list_stages=lambda: stages)
    return take_snapshot(RunProgress(flow, listed, 0, 0, False, [], lambda: [pool]), seconds, pace)


def test_a_stage_shows_its_current_and_former_workers() -> None:
    (stage,) = render_snapshot(take(Pace(), 0.0, StageCounts(failed=3), POOL))["stages"]
    assert stage == {
        "name": "read",
        "tasksIn": 0,
        "tasksOut": 0,
        "waiting": 0,
        "running": 0,
        "failed": 3,
        "rate": 0.0,
        "utilisation": 0.0,
        "oldestCall": 0.0,
        "oldestOver": "",
        "workers": 4,
        "ready": 3,
        "draining": 1,
        "started": 9,
        "lost": 2,
        "recycled": 1,
        "lostInARow": 2,
    }


def test_rate_and_utilization_cover_recent_time() -> None:
    pace = Pace()
    take(pace, 1.0, StageCounts(tasks_in=10, seconds=2.0), PoolState(seconds=2.0))
    counts = StageCounts(tasks_in=30, seconds=5.0)
    view = take(pace, 11.0, counts, PoolState(seconds=12.0)).stages[0]
    assert (view.rate, view.utilisation) == (30 / 11, 5 / 12)


def test_a_stage_is_measured_from_the_first_source_despite_a_slow_listing() -> None:
    pace = Pace()
    for seconds in range(0, 301, 2):
        take(pace, seconds, StageCounts(), PoolState(seconds=seconds), listed=0)
    counts = StageCounts(tasks_in=40, seconds=3.0)
    view = take(pace, 304.0, counts, PoolState(seconds=304.0)).stages[0]
    assert (view.rate, view.utilisation) == (10.0, 0.75)


def test_a_running_call_counts_as_work() -> None:
    pool = PoolState(seconds=20.0, under_way=10.0)
    assert take(Pace(), 20.0, StageCounts(), pool).stages[0].utilisation == 0.5


@given(
    looks=st.lists(
        st.tuples(st.floats(0.1, 60), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100)),
        max_size=10,
    )
)
def test_law_utilisation_is_a_share(looks: list[tuple[float, float, float, float]]) -> None:
    pace, seconds, busy, ready = Pace(), 0.0, 0.0, 0.0
    for step, worked, stood, under_way in looks:
        seconds, busy, ready = seconds + step, busy + worked, ready + stood
        pool = PoolState(seconds=ready, under_way=under_way)
        assert 0 <= take(pace, seconds, StageCounts(seconds=busy), pool).stages[0].utilisation <= 1


def test_final_counts_include_former_workers() -> None:
    counts = {"files": StageCounts(), "read": StageCounts(tasks_in=8, calls=4)}
    source, read = render_counts(counts, {"read": POOL})
    assert not {"calls", "started", "lost", "recycled"} & source.keys()
    assert {name: read[name] for name in ("calls", "started", "lost", "recycled")} == {
        "calls": 4,
        "started": 9,
        "lost": 2,
        "recycled": 1,
    }


def conclude(**pools: PoolState) -> AttemptResult:
    standing = Standing(5, 0, 0, 0, 0)
    return AttemptResult(
        ExitCode.COMPLETE,
        "all done",
        1,
        5,
        standing,
        counts={"read": StageCounts()},
        output="/out",
        pools=pools,
    )


def test_the_summary_names_pools_with_lost_or_replaced_workers() -> None:
    text = describe_outcome(conclude(read=POOL, write=PoolState(4, 4, started=4)), Details())
    assert "workers of read: 9 started, 2 lost, 1 recycled" in text
    assert not [line for line in text if "workers of write" in line]


def test_the_outcome_for_scripts_has_these_pools_too() -> None:
    (stage,) = render_outcome(conclude(read=POOL), Details())["stages"]
    assert (stage["name"], stage["lost"]) == ("read", 2)
