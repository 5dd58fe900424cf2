"""A recreated pipeline waits for the pods of its deleted namesake, and names these pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import FakeApi
from operator_bodies import KEY, NAMESPACE, RAY, make_pipeline, make_pod, spell_labels
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

Body = dict[str, Any]


def ending(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.reason, found.message


# --- Consequences


def test_pods_of_a_namesake_prevent_new_attempts() -> None:
    cluster = SimulatedCluster()
    cluster.namesakes = ("pod corpus-7-head", "RayJob corpus-7")
    cluster.advance(100_000)
    reason, message = ending(cluster)
    assert reason == "NamesakeRuns"
    assert "pod corpus-7-head, RayJob corpus-7" in message
    assert not cluster.attempts
    assert [event.reason for event in cluster.events].count("Blocked") == 1
    wake_at = cluster.pass_once().wake_at
    assert wake_at is not None
    assert wake_at - cluster.time <= cluster.limits.resync
    cluster.namesakes = ()
    cluster.settle()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1


def test_pods_of_a_namesake_prevent_the_launch_of_an_attempt() -> None:
    cluster = SimulatedCluster()
    cluster.has_kuberay = False  # make the attempt without a RayJob
    cluster.settle()
    cluster.has_kuberay = True
    cluster.namesakes = tuple(f"pod old-{number}" for number in range(5))
    cluster.settle()
    assert ending(cluster)[0] == "NamesakeRuns"
    assert "pod old-0, pod old-1, pod old-2 and 2 more" in ending(cluster)[1]
    assert cluster.list_of(Resource.RAYJOB) == []


# --- Detection


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    make_pipeline(api.store)
    return api


def former(name: str = "corpus") -> Body:
    """Return a deleted pipeline."""
    return {"metadata": {"name": name, "uid": "uid-of-the-former"}}


def put(api: FakeApi, kind: Resource, name: str, status: Body) -> None:
    names = {Resource.RAYJOB: "RayJob", Resource.RAYCLUSTER: "RayCluster"}
    metadata = {"name": name, "labels": spell_labels(former(), 7)}
    body = {"apiVersion": RAY, "kind": names[kind], "metadata": metadata, "spec": {}}
    api.store.create(kind, NAMESPACE, body)
    api.store.put_status(kind, NAMESPACE, name, status)


def pass_over(api: FakeApi, times: int = 4) -> Body:
    """Run some passes, and return the pipeline."""
    operator = Operator(api, Limits())
    for _ in range(times):
        asyncio.run(operator.passes.run(KEY))
    (pipeline,) = api.store.list(Resource.PIPELINE)
    return pipeline


def reason_of(pipeline: Body) -> str:
    conditions = pipeline["status"]["conditions"]
    return str(
        next(condition for condition in conditions if condition["type"] == "Succeeded")["reason"]
    )


def test_pods_of_a_former_pipeline_delay_the_new_one_until_they_end(api: FakeApi) -> None:
    pod = make_pod(api.store, former(), "old-head", "head", number=7)
    put(api, Resource.RAYCLUSTER, "old-cluster", {})
    put(api, Resource.RAYJOB, "old-job", {"jobDeploymentStatus": "Running"})
    pipeline = pass_over(api)
    assert reason_of(pipeline) == "NamesakeRuns"
    said = "pod old-head, RayCluster old-cluster, RayJob old-job"
    assert said in pipeline["status"]["conditions"][0]["message"]
    assert api.store.list(Resource.ATTEMPT) == []

    api.store.put_status(Resource.POD, NAMESPACE, "old-head", {**pod["status"], "phase": "Failed"})
    api.store.put_status(Resource.RAYJOB, NAMESPACE, "old-job", {"jobDeploymentStatus": "Complete"})
    assert reason_of(pass_over(api)) == "NamesakeRuns"  # the RayCluster may make pods again
    api.store.remove(Resource.RAYCLUSTER, NAMESPACE, "old-cluster")
    pass_over(api)
    assert [one["metadata"]["name"] for one in api.store.list(Resource.RAYJOB)] == [
        "corpus-1",
        "old-job",
    ]


def test_pods_of_another_name_or_namespace_delay_nothing(api: FakeApi) -> None:
    make_pod(api.store, former("other"), "theirs", "head", number=7)
    pod = make_pod(api.store, former(), "elsewhere", "head", number=7)
    api.store.remove(Resource.POD, NAMESPACE, "elsewhere")
    api.store.create(Resource.POD, "another", pod)
    pass_over(api)
    assert len(api.store.list(Resource.RAYJOB)) == 1


def test_later_pods_of_a_namesake_do_not_affect_a_running_attempt(api: FakeApi) -> None:
    pass_over(api)
    (rayjob,) = api.store.list(Resource.RAYJOB)
    make_pod(api.store, former(), "old-head", "head", number=7)
    pipeline = pass_over(api)
    assert reason_of(pipeline) != "NamesakeRuns"
    assert api.store.list(Resource.RAYJOB)[0]["metadata"]["uid"] == rayjob["metadata"]["uid"]


def test_namesakes_are_read_only_if_an_attempt_may_be_made(api: FakeApi) -> None:
    pass_over(api)
    before = len([call for call in api.calls if call.verb == "list"])
    pass_over(api, 1)
    after = len([call for call in api.calls if call.verb == "list"])
    assert after - before == 4  # the pipeline's own attempts, RayJobs, RayClusters, and pods
