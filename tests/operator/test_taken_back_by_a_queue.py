"""An attempt that a queue takes back is followed at once: its successor waits in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.spec.policy import RetryPolicy
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
    """Suspend the RayJob as Kueue does, with its pods on their way."""
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
    assert list_rayjobs(cluster) == ["corpus-1"]  # while there are pods, none gets others
    cluster.finish_teardown()
    assert list_rayjobs(cluster) == ["corpus-2"]
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["metadata"]["labels"][QUEUE] == "nightly"
    assert cluster.attempts["corpus-1"][1].cause is Cause.INTERRUPTED
    assert cluster.most_running == 1


def test_it_counts_as_a_disruption_so_that_it_does_not_go_on_for_ever() -> None:
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


def test_without_a_queue_a_suspension_is_waited_for_like_any_disruption() -> None:
    cluster = SimulatedCluster.running()
    take_back(cluster)
    ended = cluster.time
    cluster.finish_teardown()
    assert list_rayjobs(cluster) == []
    assert cluster.status.next_attempt_time is not None
    assert cluster.status.next_attempt_time > ended


def test_in_a_queue_what_is_no_suspension_is_waited_for() -> None:
    cluster = run_queued()
    cluster.finish(1)
    assert list_rayjobs(cluster) == []
    assert cluster.status.next_attempt_time is not None
    assert cluster.status.next_attempt_time > cluster.time
