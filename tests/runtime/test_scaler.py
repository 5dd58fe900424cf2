"""The scaler's plans on a real Ray: workers are started, drained, withdrawn, and reported."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

import engine_stages as bad
import worker_stages as told
from strandline.engine.autoscaler.capacity import NoRoomError
from strandline.engine.call.slots import Slot
from strandline.engine.core.ports import RunProgress
from strandline.engine.flow.chains import list_apart
from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.ray.pool import RayPools
from strandline.engine.ray.scaling.scaler import (
    LOOK_SECONDS,
    PENDING_SECONDS,
    SURGE_SECONDS,
    Scaler,
)
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.insight.records import read_record
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode

TIMEOUT = 120.0

pytestmark = pytest.mark.usefixtures("local_ray")


class Bench:
    """Pools, a scaler, and a manually set clock."""

    def __init__(self, *others: StagePlan, **more: Any) -> None:
        self.seconds = 100.0
        told = StagePlan("told", "told", bad.Identity(), **{"cpu": 0.1, **more})
        plans = [told, *others]
        outputs = OutputLocation(tempfile.gettempdir())
        self.pools = RayPools("tests.scaler", list_apart(plans), outputs, now=lambda: self.seconds)
        self.notes: list[str] = []
        self.scaler = Scaler(plans, self.pools, outputs, self.notes.append, lambda: self.seconds)
        self.queues = [StageQueue(plan.name, 1, None) for plan in plans]

    def look(self, seconds: float = LOOK_SECONDS) -> None:
        """Advance the time, then run the scaler."""
        self.seconds += seconds
        assert not self.scaler.look(self.queues, None)

    def take_ready(self) -> None:
        """Wait until all starting workers are ready."""
        here = ray.get_runtime_context().get_node_id()
        for take, words in (
            (self.pools.take_placed, self.pools.unplaced),
            (self.pools.take_ready, self.pools.preparing),
        ):
            for word in list(words):
                take(word, ray.get(word, timeout=TIMEOUT), here)


@contextmanager
def standing(*others: StagePlan, **more: Any) -> Iterator[Bench]:
    bench = Bench(*others, **more)
    try:
        yield bench
    finally:
        bench.pools.stop()


@pytest.mark.more
def test_the_first_look_starts_the_minimum_without_a_message() -> None:
    with standing(min_workers=2, max_workers=2) as bench:
        bench.look()
        bench.take_ready()
        state = bench.pools.look()[0]
        assert (state.workers, state.ready) == (2, 2)
        assert {worker.cpu for worker in bench.pools.list_workers()} == {0.1}
        assert bench.notes == []


def test_a_look_is_due_each_second_and_after_a_worker_has_ended() -> None:
    with standing(max_workers=1) as bench:
        bench.look()
        assert not bench.scaler.is_due(bench.queues)
        bench.pools.drain(next(bench.pools.list_workers()))
        assert bench.scaler.is_due(bench.queues)
        bench.look()
        assert bench.pools.look()[0].workers == 1
        assert bench.notes == ["1 more worker for 'told': it keeps at least 1"]
        assert not bench.scaler.is_due(bench.queues)
        bench.seconds += LOOK_SECONDS
        assert bench.scaler.is_due(bench.queues)


def test_a_fan_out_makes_a_look_due_early() -> None:
    with standing(max_workers=1) as bench:
        bench.look()
        bench.seconds += SURGE_SECONDS
        waiting = bench.queues[0].waiting
        waiting.extend([Slot(b"s" * 16, "key", b"t" * 16, None, [], 0)] * 2)
        assert not bench.scaler.is_due(bench.queues)  # two tasks per worker need no more workers
        waiting.append(waiting[0])
        assert bench.scaler.is_due(bench.queues)
        bench.look(0.0)
        waiting.extend([waiting[0]] * 4)
        assert not bench.scaler.is_due(bench.queues)  # the last plan is too recent
        bench.seconds += SURGE_SECONDS
        assert bench.scaler.is_due(bench.queues)


def test_law_a_worker_without_room_is_withdrawn_and_blocks_no_other() -> None:
    with standing(custom={"nvdec": 1.0}, max_workers=1) as bench:
        bench.pools.start_worker(0, 0.1)
        bench.take_ready()
        here = ray.get_runtime_context().get_node_id()
        bench.pools.start_worker(0, 0.1, here)  # there is only one such unit
        bench.look()
        assert bench.pools.look()[0].workers == 2
        bench.look(PENDING_SECONDS)
        assert [worker.is_ready for worker in bench.pools.list_workers()] == [True]
        assert bench.notes == [
            "a worker of 'told' can't be scheduled; the run continues without it"
        ]


def test_law_the_worker_with_the_least_to_lose_is_drained() -> None:
    other = StagePlan("other", "other", bad.Identity())
    with standing(other, cpu=1.0) as bench:
        for _ in range(2):
            bench.pools.start_worker(0, 1.0)
        bench.take_ready()
        first, second = bench.pools.list_workers()
        first.calls["call"] = None  # type: ignore[assignment]
        bench.look()  # a drain makes space for the other pool's minimum
        first.calls.clear()
        assert (first.is_draining, second.is_draining) == (False, True)
        assert bench.notes == []
        assert [state.workers for state in bench.pools.look()] == [1, 0]
        bench.look()
        assert bench.pools.look()[1].workers == 1


def test_the_bottleneck_is_the_slow_stage_with_a_queue() -> None:
    with standing(max_workers=1) as bench:
        bench.look()
        assert bench.scaler.bottleneck is None
        bench.queues[0].counts = StageCounts(tasks_in=10, tasks_out=10, seconds=5.0)
        bench.queues[0].waiting.extend([None] * 3)  # type: ignore[list-item]
        bench.look()
        assert bench.scaler.bottleneck == "told"


def plan_absent() -> PipelinePlan:
    """Return a pipeline with a stage that requires a resource that no node has."""
    source = StagePlan("numbers", "numbers", bad.Numbers(count=3))
    stages = [
        StagePlan("told", "told", bad.Identity(), cpu=0.1, custom={"absent": 1.0}),
        StagePlan("text", "text", told.NodeSink(), cpu=0.1),
    ]
    return check_plan("default", "absent", source, stages)


@pytest.mark.more
def test_a_minimum_without_room_is_reported_and_the_run_can_be_stopped(tmp_path: Path) -> None:
    notes: list[str] = []

    def report(progress: RunProgress) -> None:
        notes[:] = progress.notes

    config = AttemptConfig(plan_absent(), tmp_path)
    outcome = run_attempt(config, must_stop=lambda: bool(notes), report=report)

    assert outcome.code is ExitCode.INTERRUPTED
    assert notes == [
        "'told' has 0 of at least 1 worker: no node is large enough for 0.1 CPU, 1 absent"
    ]


def test_a_stage_that_never_finds_room_on_a_cluster_ends_the_run_at_its_limit(
    tmp_path: Path,
) -> None:
    config = AttemptConfig(plan_absent(), tmp_path, address="auto", wait=0.5)
    with pytest.raises(NoRoomError) as caught:
        run_attempt(config)
    assert str(caught.value) == (
        "'told' has 0 of at least 1 worker: no node is large enough for 0.1 CPU, 1 absent; "
        "deadlines.preRunning (0.5 s) has passed"
    )
    record = read_record(config.folder, 1)
    assert record is not None
    assert record.outcome is not None
    assert name_cause(record.outcome.evidence).cause is Cause.SCHEDULING_TIMEOUT
