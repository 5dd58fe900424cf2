"""Reads of Kueue's objects: current version, older version, no Kueue, or no permission."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import Call, FakeApi
from kueue_replay import QueuedCluster
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_rayjob
from played_operator import Operator
from strandline_operator.cluster.client import build_path
from strandline_operator.cluster.errors import Forbidden, NotFound, Unavailable
from strandline_operator.integrations.kueue.workloads import (
    VERSIONS,
    KueueKind,
    read_workloads,
)
from strandline_operator.model.limits import Limits
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.queues import (
    FORBIDDEN_SECONDS,
    KEEP_SECONDS,
    QueueMemory,
)

MISSING = "LocalQueue team-a doesn't exist"
ABSENT = QueueState(message="LocalQueue team-a does not exist")
WITHOUT_WORKLOAD = QueueState(
    message="Kueue has created no Workload for RayJob corpus-1; see Kueue's log"
)
CURRENT, FORMER = map(set, VERSIONS)


def render_workload(
    name: str = "rayjob-corpus-1", job: str = "uid-rayjob", **status: Any
) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/job-uid": job}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def render_condition(message: str, status: str = "False", type_: str = "QuotaReserved") -> Any:
    time = "2026-11-26T21:03:10Z"
    return {"type": type_, "status": status, "message": message, "lastTransitionTime": time}


def render_rayjob(**spec: Any) -> RayJob:
    metadata = {
        "name": "corpus-1",
        "namespace": NAMESPACE,
        "uid": "uid-rayjob",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
    }
    return RayJob.read({"metadata": metadata, "spec": {"suspend": True, **spec}})


class Reading:
    """Reads of a RayJob's queue state, with a server and a memory."""

    def __init__(self, *unserved: KueueKind) -> None:
        self.api, self.memory = FakeApi(unserved=set(unserved)), QueueMemory()
        self.error: Exception | None = None
        self.api.before.append(self._fail)

    def _fail(self, call: Call) -> None:
        if self.error is not None:
            raise self.error

    def read(self, now: float = 0.0, rayjob: RayJob | None = None) -> QueueState | None:
        return asyncio.run(self.memory.read(self.api, rayjob or render_rayjob(), now))


@pytest.mark.parametrize(
    ("kind", "unserved"), [(KueueKind.WORKLOAD, FORMER), (KueueKind.FORMER_WORKLOAD, CURRENT)]
)
def test_a_workload_is_read_in_the_served_version(
    kind: KueueKind, unserved: set[KueueKind]
) -> None:
    reading = Reading(*unserved)
    reading.api.store.create(kind, NAMESPACE, render_workload())
    status = {"conditions": [render_condition(MISSING)]}
    reading.api.store.objects[kind, NAMESPACE, "rayjob-corpus-1"]["status"] = status
    state = reading.read()
    assert state is not None
    assert state == QueueState(1_795_726_990.0, MISSING)


def test_a_workload_of_another_job_is_not_read() -> None:
    reading = Reading()
    other = render_workload("rayjob-other", "uid-other")
    reading.api.store.create(KueueKind.WORKLOAD, NAMESPACE, other)
    assert reading.read() == ABSENT


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_the_newest_workload_of_a_job_explains_its_wait(order: tuple[str, str]) -> None:
    workloads = {name: render_workload(name) for name in order}
    workloads["old"]["metadata"]["creationTimestamp"] = "2026-11-26T21:00:00Z"
    workloads["new"]["metadata"]["creationTimestamp"] = "2026-11-26T22:00:00Z"
    workloads["old"]["status"] = {"conditions": [render_condition("no room")]}
    workloads["new"]["status"] = {"conditions": [render_condition(MISSING)]}
    state = read_workloads(workloads.values(), "team-a")
    assert state is not None
    assert state.message == MISSING


def test_each_version_has_its_path() -> None:
    path = "/apis/kueue.x-k8s.io/v1beta{}/namespaces/team/workloads"
    assert build_path(KueueKind.WORKLOAD, "team") == path.format(2)
    assert build_path(KueueKind.FORMER_WORKLOAD, "team") == path.format(1)


@pytest.mark.parametrize("exists", [True, False])
def test_without_a_workload_the_queue_itself_is_read(*, exists: bool) -> None:
    reading = Reading()
    if exists:
        body = {"metadata": {"name": "team-a"}}
        reading.api.store.create(KueueKind.LOCAL_QUEUE, NAMESPACE, body)
    assert reading.read() == (WITHOUT_WORKLOAD if exists else ABSENT)


def test_without_kueue_the_state_reports_this() -> None:
    reading = Reading(*CURRENT, *FORMER)
    state = reading.read()
    assert state is not None
    assert "does not serve Kueue's Workloads" in state.message


def test_without_permission_the_state_reports_this_and_is_read_later() -> None:
    reading = Reading()
    reading.error = Forbidden(403, "Forbidden", "no")
    state = reading.read()
    assert state is not None
    assert "may not read Kueue's Workloads" in state.message
    reading.error = None
    assert reading.read(FORBIDDEN_SECONDS - 1) == state
    assert reading.read(FORBIDDEN_SECONDS) == ABSENT


@pytest.mark.parametrize("error", [Unavailable(0, "", "no answer"), NotFound(404, "", "no")])
def test_a_failing_server_keeps_the_last_state(error: Exception) -> None:
    reading = Reading()
    reading.api.store.create(KueueKind.WORKLOAD, NAMESPACE, render_workload())
    before = reading.read()
    assert before is not None
    reading.error = error
    later = reading.read(KEEP_SECONDS)
    is_gone = isinstance(error, NotFound)
    assert later is not None
    assert (later == before, "does not serve" in later.message) == (not is_gone, is_gone)


def test_a_state_is_read_at_most_every_few_seconds() -> None:
    reading = Reading()
    reading.api.store.create(KueueKind.WORKLOAD, NAMESPACE, render_workload())
    for now in (0.0, 1.0, KEEP_SECONDS - 0.1):
        reading.read(now)
    assert len(reading.api.calls) == 1
    reading.read(KEEP_SECONDS)
    assert len(reading.api.calls) == 2


@pytest.mark.parametrize("spec", [{"suspend": False}, {"suspend": None}])
def test_a_rayjob_that_is_not_queued_costs_no_request(spec: dict[str, Any]) -> None:
    reading = Reading()
    assert reading.read(rayjob=render_rayjob(**spec)) is None
    assert reading.api.calls == []


@pytest.mark.parametrize(
    ("workloads", "state"),
    [
        ([], None),
        ([{}], QueueState(since=0.0)),
        ([{"status": {"conditions": 7}, "spec": []}], QueueState(since=0.0)),
        (
            [{"metadata": {"name": "w"}, "spec": {"active": False}}],
            QueueState(
                0.0,
                "the Workload is deactivated; "
                "set `spec.active` of Workload w to true to queue it again",
            ),
        ),
        # A resized cluster has a Workload for each size. Earlier Workloads are finished.
        (
            [
                render_workload("old", conditions=[render_condition("", "True", "Finished")]),
                render_workload("new", conditions=[render_condition("no room")]),
            ],
            QueueState(1_795_726_990.0, "no room"),
        ),
        (
            [
                render_workload(
                    conditions=[render_condition("Quota reserved in ClusterQueue all", "True")],
                    admissionChecks=[
                        {"name": "ready", "state": "Ready"},
                        {"name": "provision", "state": "Pending"},
                    ],
                )
            ],
            QueueState(
                1_795_726_990.0,
                "Quota reserved in ClusterQueue all; admission checks are pending: provision",
            ),
        ),
    ],
)
def test_odd_workloads_are_read(workloads: list[Any], state: QueueState | None) -> None:
    assert read_workloads(workloads, "team-a") == state


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (None, "LocalQueue nightly since 1970-01-12T13:46:40Z. You may"),
        (QueueState(message="it may not be read"), "Z: it may not be read. You may"),
        (QueueState(0.0, "no room"), "nightly since 1970-01-01T00:00:00Z: no room. You may"),
    ],
)
def test_a_queued_attempt_explains_itself(queue: QueueState | None, words: str) -> None:
    cluster = QueuedCluster(queue=queue)
    cluster.edit(ray={"queueName": "nightly", "workerGroups": [{"name": "cpu"}]})
    cluster.settle()
    cluster.bind_claim()
    cluster.settle()
    (_, attempt) = cluster.attempts["corpus-1"]
    condition = attempt.find_condition("Succeeded")
    summary = cluster.status.find_condition("Succeeded")
    assert condition is not None
    assert summary is not None
    assert (attempt.phase, condition.reason, summary.reason) == ("Queued", "Queued", "Queued")
    assert words in condition.message
    assert summary.message == condition.message
    assert attempt.message == condition.message.partition(". You may")[0]


def test_a_rayjob_held_without_a_queue_name_reports_the_missing_name() -> None:
    workload = render_workload(conditions=[render_condition("LocalQueue  doesn't exist")])
    cluster = QueuedCluster(queue=read_workloads([workload], queue=""))
    cluster.settle()
    cluster.bind_claim()
    cluster.settle()
    assert cluster.status.state == (
        "attempt 1: queued in Kueue since 2026-11-26T21:03:10Z: the pipeline names no queue in "
        "`ray.queueName`"
    )


def test_a_pass_reads_the_state_and_polls_again_soon() -> None:
    api = FakeApi()
    pipeline = make_pipeline(api.store)
    rayjob = make_rayjob(api.store, pipeline, make_attempt(api.store, pipeline), {})
    labels = {**rayjob["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "team-a"}
    patch = {"metadata": {"labels": labels}, "spec": {"suspend": True}}
    api.store.patch(Resource.RAYJOB, NAMESPACE, "corpus-1", patch)
    operator = Operator(api, Limits())
    asyncio.run(operator.passes.run(KEY))
    attempt = api.store.get(Resource.ATTEMPT, NAMESPACE, "corpus-1")
    assert attempt is not None
    assert attempt["status"]["phase"] == "Queued"
    assert "LocalQueue team-a does not exist" in attempt["status"]["message"]
