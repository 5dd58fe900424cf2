"""Events are read rarely, and only for objects that fail to start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration

from fake_api import Call, FakeApi
from fake_store import FakeStore
from http_stub import Stub, serve
from operator_bodies import (
    KEY,
    NAMESPACE,
    make_attempt,
    make_pipeline,
    make_pod,
    make_rayjob,
    spell_labels,
)
from played_operator import Operator
from strandline_api.notation.times import format_time
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.model.limits import Limits
from strandline_operator.model.notices import Notice, find_newest
from strandline_operator.model.objects import Pod, RayClusterState, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.notices import MOST_OBJECTS, NoticeMemory, list_stuck

Body = dict[str, Any]
NOW = 1_000_000.0
READY = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
UNREADY = {
    "conditions": [{"type": "Ready", "status": "False", "message": "unready"}],
    "phase": "Running",
}
CREATING = {"phase": "Pending"}
WELL = ""
WARNING = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "a.1"},
    "involvedObject": {"kind": "Pod", "name": "a"},
    "type": "Warning",
    "reason": "FailedMount",
    "message": "not found",
}


def make_parts(
    pods: dict[str, Body], age: float = 10.0, **rayjob: Any
) -> tuple[RayJob, list[RayClusterState], list[Pod]]:
    """Return the RayJob of attempt 1, its RayCluster, and its pods, all `age` seconds old."""
    created = format_time(NOW - age)
    labels = {"strandline.dev/attempt": "1"}
    metadata = {"labels": labels, "creationTimestamp": created}
    status = {"jobDeploymentStatus": "Initializing", **rayjob}
    job = RayJob.read({"metadata": {**metadata, "name": "corpus-1"}, "status": status})
    cluster = RayClusterState.read({"metadata": {**metadata, "name": "corpus-1-abcde"}})
    made = [
        {
            "metadata": {
                **metadata,
                "name": name,
                "labels": {**labels, "strandline.dev/role": name.partition("-")[0]},
            },
            "spec": {"nodeName": "node-1"},
            "status": pod,
        }
        for name, pod in pods.items()
    ]
    return job, [cluster], [Pod.read(one) for one in made]


@pytest.mark.parametrize(
    ("pods", "age", "expected"),
    [
        ({"worker-1": CREATING, "head-1": CREATING}, 10, "head-1 worker-1"),
        ({"worker-1": CREATING, "head-1": READY}, 10, "worker-1"),
        ({"head-1": CREATING}, 2, WELL),
        ({"head-1": UNREADY}, 40, WELL),
        ({"head-1": UNREADY}, 46, "head-1"),
        ({}, 10, "corpus-1-abcde"),
        ({"head-1": READY}, 10, "corpus-1"),
        ({"head-1": {"phase": "Running"}}, 100, WELL),
    ],
)
def test_objects_without_their_expected_dependents_are_stuck(
    pods: dict[str, Body], age: float, expected: str
) -> None:
    assert list_stuck(*make_parts(pods, age), NOW) == tuple(expected.split())


def test_a_rayjob_without_its_cluster_is_stuck_itself() -> None:
    rayjob, _, _ = make_parts({})
    assert list_stuck(rayjob, [], [], NOW) == ("corpus-1",)
    assert list_stuck(None, [], [], NOW) == ()


@pytest.mark.parametrize("status", [{"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}])
def test_no_events_are_read_while_the_driver_is_running(status: Body) -> None:
    assert list_stuck(*make_parts({"head-1": UNREADY}, 100, **status), NOW) == ()


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ({"head-1": READY}, "corpus-1"),
        ({"head-1": READY, "worker-1": CREATING}, "corpus-1 worker-1"),
        ({"head-1": READY, "submitter-1": CREATING}, "submitter-1"),
        ({"head-1": READY, "submitter-1": READY}, WELL),
    ],
)
def test_events_of_a_missing_submitter_are_read_in_any_state(
    pods: dict[str, Body], expected: str
) -> None:
    """KubeRay reports Running when the submitter's Job exists, even if the Job has no pod."""
    parts = make_parts(pods, 100, jobDeploymentStatus="Running")
    assert list_stuck(*parts, NOW) == tuple(expected.split())


def test_a_pod_that_waits_for_its_node_or_leaves_is_not_stuck() -> None:
    rayjob, clusters, (pod,) = make_parts({"head-1": CREATING})
    unplaced = Pod.read({"metadata": {"name": "x", "labels": dict(pod.meta.labels)}})
    assert list_stuck(rayjob, clusters, [unplaced], NOW) == ()


UNPLACED = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}],
}


def leave_unplaced(*names: str, **rayjob: Any) -> tuple[RayJob, list[RayClusterState], list[Pod]]:
    """Return pods without a node. The name of a worker pod contains its group."""
    job, clusters, _ = make_parts({}, 100, **rayjob)
    bodies = [
        {
            "metadata": {
                "name": name,
                "labels": {
                    "strandline.dev/attempt": "1",
                    "strandline.dev/role": "head" if name.startswith("head") else "worker",
                    "strandline.dev/group": name.partition("-")[0],
                },
            },
            "status": UNPLACED,
        }
        for name in names
    ]
    return job, clusters, [Pod.read(body) for body in bodies]


def test_events_are_read_for_one_unplaced_pod_per_group_head_first() -> None:
    parts = leave_unplaced("gpu-1", "gpu-2", "cpu-1", "head-1")
    assert list_stuck(*parts, NOW) == ("head-1", "cpu-1", "gpu-1")


def test_events_of_unplaced_workers_are_read_while_the_driver_is_running() -> None:
    runs = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
    parts = leave_unplaced("cpu-1", "cpu-2", **runs)
    assert list_stuck(*parts, NOW) == ("cpu-1",)


def test_events_are_read_for_a_limited_number_of_objects() -> None:
    pods = {f"worker-{number}": CREATING for number in range(20)}
    assert len(list_stuck(*make_parts(pods), NOW)) == MOST_OBJECTS


def test_events_are_cached_for_a_moment() -> None:
    api, memory = FakeApi(FakeStore()), NoticeMemory()

    async def look(now: float) -> int:
        await memory.look(api, NAMESPACE, ["corpus-1"], now)
        return len(api.calls)

    asked = [asyncio.run(look(now)) for now in (0.0, 1.0, 3.9, 4.0, 5.0, 2.0)]
    assert asked == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("error", [Forbidden(403, "", "no"), Unavailable(0, "", "gone")])
def test_unreadable_events_are_ignored(error: Exception) -> None:
    api = FakeApi(FakeStore())

    def refuse(call: Call) -> None:
        if call.verb == "events":
            raise error

    api.before.append(refuse)
    assert asyncio.run(NoticeMemory().look(api, NAMESPACE, ["a", "b"], 0.0)) == ()


def test_earlier_events_count_while_events_are_unreadable() -> None:
    """Otherwise a condition would flap with each failed read of events."""
    api, memory = FakeApi(FakeStore()), NoticeMemory()
    api.store.create(Resource.EVENT, NAMESPACE, WARNING)

    def refuse(call: Call) -> None:
        if call.verb == "events":
            raise Unavailable(429, "", "later")

    async def look(now: float) -> list[str]:
        return [notice.message for notice in await memory.look(api, NAMESPACE, ["a"], now)]

    assert asyncio.run(look(0.0)) == ["not found"]
    api.before.append(refuse)
    assert asyncio.run(look(5.0)) == ["not found"]
    api.before.clear()
    api.store.remove(Resource.EVENT, NAMESPACE, "a.1")
    assert asyncio.run(look(10.0)) == []


def nominate(api: FakeApi) -> None:
    about = {"kind": "Pod", "name": "a"}
    words = "Pod should schedule on: nodeclaim/default-x"
    pod = {**WARNING, "involvedObject": about, "reason": "Nominated", "message": words}
    api.store.create(Resource.EVENT, NAMESPACE, pod)
    claim = {"kind": "NodeClaim", "name": "default-x"}
    body = {**WARNING, "involvedObject": claim, "reason": "InsufficientCapacityError"}
    api.store.create(Resource.EVENT, "default", body)


def test_events_of_a_pods_node_claim_are_read_too() -> None:
    api = FakeApi(FakeStore())
    nominate(api)
    found = asyncio.run(NoticeMemory().look(api, NAMESPACE, ["a"], 0.0))
    assert [notice.reason for notice in found] == ["Nominated", "InsufficientCapacityError"]


def test_unreadable_node_claims_are_requested_once_a_day() -> None:
    api, memory = FakeApi(FakeStore()), NoticeMemory()
    nominate(api)

    def refuse(call: Call) -> None:
        if call.name == "default-x":
            raise Forbidden(403, "", "no")

    api.before.append(refuse)

    async def look(now: float) -> int:
        found = await memory.look(api, NAMESPACE, ["a"], now)
        assert [notice.reason for notice in found] == ["Nominated"]
        return [call.name for call in api.calls].count("default-x")

    assert [asyncio.run(look(now)) for now in (0.0, 100.0, 90_000.0)] == [1, 1, 2]


def test_the_newest_warning_counts_in_any_time_format() -> None:
    bodies: list[Body] = [
        {
            "reason": "FailedMount",
            "message": "first",
            "firstTimestamp": format_time(50),
            "lastTimestamp": format_time(100),
        },
        {"reason": "FailedMount", "message": "third\n", "eventTime": format_time(300)},
        {
            "reason": "FailedMount",
            "message": "second",
            "series": {"lastObservedTime": format_time(200)},
        },
        {"reason": "Other", "metadata": {"creationTimestamp": format_time(400)}},
        {"involvedObject": 3, "series": None, "metadata": "odd"},
    ]
    notices = [Notice.read(body) for body in bodies]
    newest = find_newest(notices, ["FailedMount"])
    assert newest is not None
    assert (newest.message, newest.time) == ("third", 300)
    assert find_newest(notices, ["FailedMount"], uid="x") is None
    assert [notice.time for notice in notices] == [100, 300, 200, 400, 0]
    assert [notice.first for notice in notices] == [50, 300, 200, 400, 0]


def test_one_page_of_events_is_requested_per_name() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer({"items": [{"reason": "FailedMount"}], "metadata": {"continue": "more"}})
        assert await api.list_events("team", "a") == [{"reason": "FailedMount"}]
        (asked,) = stub.asked
        assert asked.path == "/api/v1/namespaces/team/events"
        fields = "involvedObject.name=a"
        assert asked.query == {"fieldSelector": fields, "limit": "100"}

    asyncio.run(_tell(story))


async def _tell(story: Callable[[Stub, KubernetesApi], Awaitable[None]]) -> None:
    async with serve() as stub:
        api = KubernetesApi(Configuration(host=stub.url), agent="tests/1")
        try:
            await story(stub, api)
        finally:
            await api.close()


def start_head(api: FakeApi, **status: Any) -> Body:
    """Create the head pod of an attempt that KubeRay has made but that does not run yet."""
    pipeline = make_pipeline(api.store)
    attempt = make_attempt(api.store, pipeline)
    make_rayjob(api.store, pipeline, attempt, {"jobDeploymentStatus": "Initializing"})
    metadata = {"name": "corpus-1-abcde", "labels": spell_labels(pipeline, 1)}
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
    api.store.create(Resource.RAYCLUSTER, NAMESPACE, body)
    pod = make_pod(api.store, pipeline, "corpus-1-head", "head")
    api.store.put_status(Resource.POD, NAMESPACE, "corpus-1-head", status)
    return pod


def tell_event(api: FakeApi, pod: Body, kind: str, reason: str, message: str) -> None:
    about = {"kind": "Pod", "name": "corpus-1-head", "uid": pod["metadata"]["uid"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "corpus-1-head.1"},
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": "some-controller"},
        "lastTimestamp": format_time(api.store.time),
    }
    api.store.create(Resource.EVENT, NAMESPACE, event)


def read_summary(api: FakeApi) -> tuple[str, str]:
    (found,) = api.store.list(Resource.PIPELINE)
    (summary,) = (
        condition for condition in found["status"]["conditions"] if condition["type"] == "Succeeded"
    )
    return summary["reason"], summary["message"]


def test_a_failed_mount_is_reported_by_the_next_pass() -> None:
    """The message goes from the pod's event to the pipeline's condition."""
    api = FakeApi(FakeStore(time=NOW))
    pod = start_head(api, **CREATING)
    operator = Operator(api, Limits())
    asyncio.run(operator.passes.run(KEY))
    assert [call.name for call in api.calls if call.verb == "events"] == []

    api.store.time += 5
    tell_event(api, pod, "Warning", "FailedMount", 'secret "s3" not found')
    asyncio.run(operator.passes.run(KEY))
    assert [call.name for call in api.calls if call.verb == "events"] == ["corpus-1-head"]
    reason, message = read_summary(api)
    assert reason == "VolumeNotMounted"
    assert 'head pod corpus-1-head: secret "s3" not found' in message


def test_an_autoscalers_message_is_combined_with_the_existing_nodes() -> None:
    """The autoscaler's event and the list of nodes together show that a node is full."""
    api = FakeApi(FakeStore(time=NOW))
    placed = start_head(api)
    api.store.remove(Resource.POD, NAMESPACE, "corpus-1-head")
    words = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "message": words}
    status = {"phase": "Pending", "conditions": [condition]}
    metadata = {name: placed["metadata"][name] for name in ("name", "labels")}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
    pod = api.store.create(Resource.POD, NAMESPACE, body)
    allocatable = {"cpu": "4", "memory": "8Gi"}
    api.nodes = {"a": {"metadata": {"name": "a"}, "status": {"allocatable": allocatable}}}
    never = (
        "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient cpu"
    )
    tell_event(api, pod, "Normal", "NotTriggerScaleUp", never)
    operator = Operator(api, Limits())
    for _ in range(10):
        api.store.time += 10
        asyncio.run(operator.passes.run(KEY))
    assert {call.name for call in api.calls if call.verb == "events"} == {"corpus-1-head"}
    assert [call.verb for call in api.calls if call.resource is Resource.NODE] == ["list"]
    reason, message = read_summary(api)
    assert reason == "NoRoom"
    assert "the scheduler: 0/1 nodes are available: 1 Insufficient cpu" in message
