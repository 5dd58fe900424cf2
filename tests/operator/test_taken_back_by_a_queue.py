"""If a queue evicts an attempt, the next attempt immediately enters the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import FakeApi
from fake_store import FakeStore
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_rayjob
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

QUEUE = "kueue.x-k8s.io/queue-name"


def run_queued(*, is_label: bool = False, **spec: Any) -> SimulatedCluster:
    cluster = SimulatedCluster()
    if is_label:
        cluster.pipeline["metadata"]["labels"] = {QUEUE: "nightly"}
    else:
        spec["ray"] = {"queueName": "nightly", "workerGroups": [{"name": "cpu"}]}
    cluster.edit(**spec)
    cluster.launch()
    cluster.settle()
    return cluster


def take_back(cluster: SimulatedCluster) -> None:
    """Suspend the RayJob as Kueue does, while its pods terminate."""
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = True
    cluster.settle()
    rayjob["status"]["jobDeploymentStatus"] = "Suspending"
    cluster.settle()


def list_rayjobs(cluster: SimulatedCluster) -> list[str]:
    return [rayjob["metadata"]["name"] for rayjob in cluster.list_of(Resource.RAYJOB)]


@pytest.mark.parametrize("is_label", [False, True])
def test_the_next_attempt_waits_in_the_queue_as_soon_as_the_pods_are_gone(
    *, is_label: bool
) -> None:
    cluster = run_queued(is_label=is_label)
    take_back(cluster)
    cluster.advance(5.0)
    assert list_rayjobs(cluster) == ["corpus-1"]  # the second waits until the first pods are gone
    cluster.finish_teardown()
    assert list_rayjobs(cluster) == ["corpus-2"]
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["metadata"]["labels"][QUEUE] == "nightly"
    assert cluster.attempts["corpus-1"][1].cause is Cause.INTERRUPTED
    assert cluster.most_running == 1


@pytest.mark.parametrize("is_queued", [False, True])
def test_an_evicted_rayjob_is_deleted_at_once(*, is_queued: bool) -> None:
    """The first head is still terminating, and the operator still reads its report."""
    cluster = run_queued() if is_queued else SimulatedCluster.running()
    cluster.edit(holdOnFailure="1h", retry={"disruptions": {"maxRetries": 0}})
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["status"]["jobDeploymentStatus"] = "Suspending"
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" in rayjob["metadata"]
    assert cluster.attempts["corpus-1"][1].end_time == cluster.time
    cluster.outcome = DriverOutcome(exit_code=75, message="interrupted; goes on later")
    cluster.advance(1.0)
    assert cluster.attempts["corpus-1"][1].outcome is not None
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.INTERRUPTED


def test_an_eviction_counts_as_a_limited_disruption() -> None:
    cluster = run_queued()
    cluster.policy = RetryPolicy.model_validate(
        {"disruptions": {"maxRetries": 2}, "jitter": "none"}
    )
    for _ in range(3):
        take_back(cluster)
        cluster.finish_teardown()
        if cluster.list_of(Resource.RAYJOB):
            cluster.start_rayjob()
            cluster.settle()
    assert [past.number for past in cluster.status.attempts] == [1, 2, 3]
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 2)
    assert cluster.list_of(Resource.RAYJOB) == []


def test_without_a_queue_a_suspension_has_the_usual_retry_delay() -> None:
    cluster = SimulatedCluster.running()
    take_back(cluster)
    ended = cluster.time
    cluster.finish_teardown()
    assert list_rayjobs(cluster) == []
    assert cluster.status.next_attempt_time is not None
    assert cluster.status.next_attempt_time > ended


WHY = "Preempted to accommodate a workload due to prioritization in the ClusterQueue"


@pytest.mark.parametrize("is_late", [False, True])
def test_the_attempt_reports_the_queues_reason(*, is_late: bool) -> None:
    """Kueue's event may follow the suspension. Its text becomes the attempt's message."""
    api = FakeApi(FakeStore(time=1_000_000.0))
    pipeline = make_pipeline(api.store)
    attempt = make_attempt(api.store, pipeline)
    running = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
    rayjob = make_rayjob(api.store, pipeline, attempt, running)
    operator = Operator(api, Limits())
    asyncio.run(operator.passes.run(KEY))
    assert [call for call in api.calls if call.verb == "events"] == []
    status = {"jobDeploymentStatus": "Suspending", "jobStatus": "RUNNING"}
    api.store.put_status(Resource.RAYJOB, NAMESPACE, "corpus-1", status)
    if is_late:
        asyncio.run(operator.passes.run(KEY))
        assert read_message(api) == "RayJob corpus-1 was suspended while its driver ran"
    for reason, message in (("Started", "Admitted by clusterQueue all"), ("Stopped", WHY)):
        api.store.time += 1
        api.store.create(Resource.EVENT, NAMESPACE, render_event(rayjob, reason, message, api))
    asyncio.run(operator.passes.run(KEY))
    assert read_message(api) == f"RayJob corpus-1 was suspended while its driver ran: {WHY}"
    assert {call.name for call in api.calls if call.verb == "events"} == {"corpus-1"}


def read_message(api: FakeApi) -> str:
    (found,) = api.store.list(Resource.ATTEMPT)
    assert found["status"]["phase"] == "TearingDown"
    (seen,) = found["status"]["evidence"]
    assert seen["message"] == found["status"]["message"]
    return str(seen["message"])


def render_event(about: dict[str, Any], reason: str, message: str, api: FakeApi) -> dict[str, Any]:
    names = {"kind": "RayJob", "name": "corpus-1", "uid": about["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"corpus-1.{reason}"},
        "involvedObject": names,
        "type": "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": "ray.io/rayjob-kueue-controller"},
        "lastTimestamp": format_time(api.store.time),
    }


def test_in_a_queue_an_ordinary_failure_has_the_usual_retry_delay() -> None:
    cluster = run_queued()
    cluster.finish(1)
    assert list_rayjobs(cluster) == []
    assert cluster.status.next_attempt_time is not None
    assert cluster.status.next_attempt_time > cluster.time
