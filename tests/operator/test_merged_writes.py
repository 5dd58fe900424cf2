"""A pass also writes the status of the next pass, and omits progress that a later write has."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.status.pipeline_status import Progress
from strandline_operator.model.plan import Create, PassPlan, Resource
from strandline_operator.model.view import Refusal


def creates_rayjob(plan: PassPlan) -> bool:
    creates = [action for action in plan.actions if isinstance(action, Create)]
    return any(create.resource is Resource.RAYJOB for create in creates)


def test_the_pass_that_creates_the_rayjob_writes_the_next_phase() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    (launch,) = [index for index, plan in enumerate(cluster.plans) if creates_rayjob(plan)]
    assert cluster.plans[launch].attempts["corpus-1"].phase == "Starting"
    assert [plan.pipeline for plan in cluster.plans[launch + 1 :]] == [None] * (
        len(cluster.plans) - launch - 1
    )
    assert cluster.status.state == "attempt 1: Starting"


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_held_or_rejected_launch_is_not_reported_as_started(is_queued: bool) -> None:
    cluster = SimulatedCluster()
    if is_queued:
        cluster.pipeline["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    else:
        cluster.refused[Resource.RAYJOB] = Refusal(Resource.RAYJOB, "corpus-1", 403, "no")
    cluster.settle()
    launches = [plan for plan in cluster.plans if creates_rayjob(plan)]
    if is_queued:
        assert launches[0].attempts["corpus-1"].phase == "Pending"
    else:
        assert cluster.attempts["corpus-1"][1].phase == "Pending"


def end_submitter(cluster: SimulatedCluster) -> None:
    ended = {"exitCode": 0, "finishedAt": format_time(cluster.time)}
    container = {"name": "ray-job-submitter", "state": {"terminated": ended}}
    labels = cluster.list_of(Resource.RAYJOB)[0]["metadata"]["labels"]
    cluster.add_pod("corpus-1-submit", labels, containerStatuses=[container])


def test_progress_after_the_end_of_the_submitter_waits_for_a_while() -> None:
    cluster = SimulatedCluster.running()
    cluster.progress = Progress(finished=1, time=cluster.time)
    cluster.settle()
    end_submitter(cluster)
    cluster.time += cluster.limits.status_interval
    cluster.progress = Progress(finished=2, time=cluster.time)
    plan = cluster.pass_once()
    assert (plan.pipeline, plan.attempts) == (None, {})
    # A driver that outlives its submitter reports its progress again.
    cluster.time += cluster.limits.submitter
    cluster.progress = Progress(finished=3, time=cluster.time)
    cluster.settle()
    assert cluster.status.progress == cluster.progress


def test_the_end_includes_the_progress_that_waited() -> None:
    cluster = SimulatedCluster.running()
    cluster.progress = Progress(finished=1, time=cluster.time)
    cluster.settle()
    end_submitter(cluster)
    cluster.time += cluster.limits.status_interval
    cluster.progress = Progress(finished=2, time=cluster.time)
    cluster.settle()
    cluster.end_rayjob()
    plan = cluster.pass_once()
    assert plan.attempts["corpus-1"].end_time is not None
    assert plan.attempts["corpus-1"].progress == cluster.progress
