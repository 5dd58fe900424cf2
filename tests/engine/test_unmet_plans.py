"""Requests that no machine of the cluster can meet are found, and only these."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.engine.autoscaler.capacity import (
    FirstWorkers,
    asks_for_more_than_cpus,
    find_unmet,
    refuse_unmet,
)
from strandline.engine.core.pools import PoolState
from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.ray.engine import RayEngine
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.stage import Stage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import make_engine
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause

HAVE = {"CPU": 2.0, "memory": 8e9, "GPU": 1.0, "node:10.0.0.1": 1.0}
HINT = "; request less, or run on a larger cluster with --address"


def plan_of(*asked: dict[str, Any]) -> PipelinePlan:
    stages = tuple(
        StagePlan(f"stage-{index}", "stage", Stage(), **each) for index, each in enumerate(asked)
    )
    source = StagePlan("source", "source", Stage(), cpu=99.0)  # the source works in the driver
    return PipelinePlan("default", "asks", source, stages, Fingerprint("", {}))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"cpu": 64.0}, "cpu: stage 'stage-0' requests 64 CPU per worker, but there are 2 CPU"),
        ({"gpu": 1.5}, "gpu: stage 'stage-0' requests 1.5 GPU per worker, but there is 1 GPU"),
        (
            {"memory": 64 * 10**9},
            "memory: stage 'stage-0' requests 64 GB of memory per worker, but there are 8 GB of "
            "memory",
        ),
        (
            {"custom": {"nvdec": 0.5}},
            "custom.nvdec: stage 'stage-0' requests 0.5 nvdec per worker, but there is no nvdec",
        ),
    ],
)
def test_an_unsatisfiable_request_is_reported_with_the_available_resources(
    asked: dict[str, Any], sentence: str
) -> None:
    (problem,) = find_unmet(plan_of(asked, {}), HAVE)
    assert str(problem) == f"spec.stages[0].resources.{sentence}{HINT}"


def test_the_last_stage_is_the_sink() -> None:
    (problem,) = find_unmet(plan_of({}, {"gpu": 0.5}), HAVE | {"GPU": 0.0})
    assert problem.path == "spec.sink.resources.gpu"
    assert problem.message == "stage 'stage-1' requests 0.5 GPU per worker, but there is no GPU"


def test_all_unsatisfiable_requests_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        refuse_unmet(plan_of({"cpu": 3.0, "gpu": 2.0}, {"memory": 10**10}), HAVE)
    assert 3 == len(caught.value.problems)


def test_requests_that_fit_alone_are_not_refused() -> None:
    """Stages share the resources: if minimums exceed the CPUs, all stages reserve less."""
    refuse_unmet(plan_of(*[{"cpu": 2.0, "gpu": 1.0, "min_workers": 9}] * 3), HAVE)


def test_requests_beyond_cpus_are_detected() -> None:
    assert not asks_for_more_than_cpus(plan_of({"cpu": 64.0}))
    for asked in ({"gpu": 0.1}, {"memory": 1}, {"custom": {"nvdec": 0.1}}):
        assert asks_for_more_than_cpus(plan_of({}, asked))


READY, NONE = PoolState(workers=1, ready=1), PoolState(workers=1)


def queues_of(*lengths: int) -> list[StageQueue]:
    queues = [StageQueue(f"stage-{number}", 1, None) for number in range(len(lengths))]
    for queue, length in zip(queues, lengths, strict=True):
        queue.waiting.extend([None] * length)  # type: ignore[list-item]
    return queues


def test_a_stage_with_work_but_no_worker_is_overdue_after_the_limit() -> None:
    first = FirstWorkers(10.0)
    looks = [(0.0, 0), (100.0, 3), (110.0, 3), (110.5, 3)]  # counted from the first work
    found = [
        first.find_overdue(now, queues_of(1, waiting), [READY, NONE]) for now, waiting in looks
    ]
    assert found == [None, None, None, 1]


def test_a_stage_that_had_a_worker_is_not_overdue_when_it_loses_all() -> None:
    first = FirstWorkers(10.0)
    looks = [(0.0, NONE), (5.0, READY), (6.0, NONE), (1000.0, NONE)]
    assert {first.find_overdue(now, queues_of(1), [pool]) for now, pool in looks} == {None}


def test_a_stage_whose_work_was_taken_back_waits_from_the_beginning() -> None:
    first = FirstWorkers(10.0)
    looks = [(0.0, 1), (9.0, 0), (12.0, 1), (22.0, 1)]
    assert {first.find_overdue(now, queues_of(n), [NONE]) for now, n in looks} == {None}
    assert first.find_overdue(22.5, queues_of(1), [NONE]) == 0


def test_without_a_limit_nothing_is_overdue() -> None:
    first = FirstWorkers(None)
    assert {first.find_overdue(now, queues_of(1), [NONE]) for now in (0.0, 1e9)} == {None}


@pytest.mark.parametrize(
    ("why", "begin"),
    [
        (None, "no worker of 'ocr' is ready"),
        ("'ocr' has 0 of at least 1 worker: there is no node",) * 2,
    ],
)
def test_a_run_without_room_ends_with_the_known_reason(why: str | None, begin: str) -> None:
    error = FirstWorkers(600.0).refuse("ocr", why)
    assert str(error) == f"{begin}; deadlines.preRunning (600 s) has passed"
    assert (error.cause, error.is_lasting) == (Cause.SCHEDULING_TIMEOUT, True)


@pytest.mark.parametrize(("address", "wait"), [("auto", 5.0), (None, None)])
def test_only_a_cluster_is_awaited(address: str | None, wait: float | None) -> None:
    config = AttemptConfig(plan_of({"cpu": 1.0}), None, address=address, wait=5.0)
    engine = make_engine(config, OutputLocation("out"))
    assert isinstance(engine, RayEngine)
    assert engine.wait == wait
