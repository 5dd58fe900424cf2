"""Nodes are read by a watch or by name before they disappear, and the last state is kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fake_api import Call, FakeApi
from node_bodies import GKE_SPOT, KARPENTER_SPOT, spell_node, spell_taint
from operator_bodies import KEY, make_attempt, make_pipeline, make_pod
from played_operator import Operator
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.decide.evidence.pods import find_pod_evidence
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.marks import NodeMarks, NodeState, read_marks
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.nodes import (
    FORBIDDEN_SECONDS,
    LATE_SECONDS,
    MOST_READS,
    NodeMemory,
)
from strandline_operator.reconcile.caches.notices import NoticeMemory

Json = dict[str, Any]
NOW = 1_000_000.0
SPOT = spell_node("node-1", GKE_SPOT)
KARPENTERS = spell_node("node-1", KARPENTER_SPOT, taints=[spell_taint("karpenter.sh/disrupted")])


def make_a_pod(name: str = "a", node: str = "node-1", *, is_gone: bool = False, **meta: Any) -> Pod:
    metadata = {"name": name, "uid": f"uid-of-{name}", "namespace": "team", **meta}
    body = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}
    return Pod.read(body, is_gone=is_gone)


def gone(name: str = "a", **more: Any) -> Pod:
    return make_a_pod(name, is_gone=True, **more)


class Watched:
    """A node memory with a watch."""

    def __init__(self, *nodes: Json) -> None:
        self.api, self.memory = FakeApi(), NodeMemory()
        self.memory.watched.is_connected = True
        entries = [self.memory.watched.read(node) for node in nodes]
        self.note(self.memory.watched.replace(entries, "1"))

    def note(self, changes: list[Observation[NodeMarks]]) -> None:
        for change in changes:
            self.memory.note(change)

    def show(self, kind: str, node: Json) -> None:
        self.note(self.memory.watched.apply(kind, node))

    def look(
        self, *pods: Pod, ended: tuple[Pod, ...] = (), now: float = NOW
    ) -> dict[str, NodeMarks]:
        return asyncio.run(self.memory.read_marks(self.api, pods, ended, now))


def test_a_watched_node_costs_no_request() -> None:
    cluster = Watched(SPOT)
    assert cluster.look(make_a_pod()) == {"uid-of-a": read_marks(SPOT)}
    cluster.show("MODIFIED", KARPENTERS)
    assert cluster.look(make_a_pod())["uid-of-a"] == read_marks(KARPENTERS)
    assert cluster.api.calls == []


def test_a_deleted_node_is_remembered_for_its_pods() -> None:
    cluster = Watched(SPOT)
    cluster.show("DELETED", SPOT)
    marks = cluster.look(make_a_pod())["uid-of-a"]
    assert (marks.is_gone, marks.is_spot) == (True, True)
    # A node that returns under the same name is another node.
    cluster.show("ADDED", {**SPOT, "metadata": {**SPOT["metadata"], "uid": "another"}})
    assert not cluster.look(make_a_pod())["uid-of-a"].is_gone


def test_a_deleted_pod_keeps_its_nodes_marks_of_that_time() -> None:
    """The node is marked only after its last pod has gone, perhaps because the node is empty."""
    cluster = Watched(SPOT)
    cluster.look(make_a_pod())
    cluster.look(ended=(gone(),))
    cluster.show("MODIFIED", KARPENTERS)
    assert cluster.look(ended=(gone(),), now=NOW + LATE_SECONDS + 1)["uid-of-a"] == read_marks(SPOT)


@pytest.mark.parametrize(("role", "is_kept"), [("worker", True), ("head", False)])
def test_a_released_worker_keeps_its_nodes_marks_of_that_time(role: str, *, is_kept: bool) -> None:
    """Karpenter removes a node as soon as the node is empty."""
    cluster = Watched(SPOT)
    meta: Json = {
        "labels": {"strandline.dev/role": role},
        "deletionTimestamp": format_time(NOW + 30),
    }
    cluster.look(make_a_pod(**meta))
    cluster.show("MODIFIED", KARPENTERS)
    expected = read_marks(SPOT if is_kept else KARPENTERS)
    assert cluster.look(make_a_pod(**meta), now=NOW + 1)["uid-of-a"] == expected
    assert cluster.look(ended=(gone(**meta),), now=NOW + 2)["uid-of-a"] == expected


def test_a_node_may_vanish_a_moment_after_its_pod() -> None:
    cluster = Watched(SPOT)
    cluster.look(ended=(gone(),))
    cluster.show("DELETED", SPOT)
    assert cluster.look(ended=(gone(),), now=NOW + LATE_SECONDS - 1)["uid-of-a"].is_gone


@pytest.mark.parametrize(("age", "is_gone"), [(1.0, False), (3600.0, True)])
def test_a_node_deleted_before_this_process_counts_as_gone(age: float, *, is_gone: bool) -> None:
    created = format_time(NOW - age)
    assert Watched().look(ended=(gone(creationTimestamp=created),)) == {}
    cluster = Watched(spell_node("node-2"))
    assert cluster.look(make_a_pod(creationTimestamp=created)) == {}
    found = cluster.look(ended=(gone(creationTimestamp=created),))
    assert [marks.is_gone for marks in found.values()] == ([True] if is_gone else [])


def test_without_a_watch_a_node_is_read_at_a_pods_start_and_end() -> None:
    api, memory = FakeApi(nodes={"node-1": SPOT}), NodeMemory()

    def look(*pods: Pod, ended: tuple[Pod, ...] = (), now: float) -> dict[str, NodeMarks]:
        return asyncio.run(memory.read_marks(api, pods, ended, now))

    for now in (NOW, NOW + 100, NOW + 200):
        assert look(make_a_pod(), now=now)["uid-of-a"].is_spot
    assert len(api.calls) == 1
    api.nodes["node-1"] = None
    marks = look(ended=(gone(),), now=NOW + 300)["uid-of-a"]
    assert (marks.is_spot, marks.is_gone, len(api.calls)) == (True, True, 2)
    look(ended=(gone(),), now=NOW + 400)
    assert len(api.calls) == 2


def test_a_pass_reads_only_a_few_nodes() -> None:
    api, memory = FakeApi(), NodeMemory()
    pods = [make_a_pod(str(number), f"node-{number}") for number in range(100)]
    asyncio.run(memory.read_marks(api, pods, (), NOW))
    assert len(api.calls) == MOST_READS
    asyncio.run(memory.read_marks(api, pods, (), NOW))
    assert len({call.name for call in api.calls}) == 2 * MOST_READS


def test_without_permission_nodes_are_unknown_and_not_requested_soon() -> None:
    api, memory = FakeApi(), NodeMemory()

    def refuse(call: Call) -> None:
        raise Forbidden(403, "Forbidden", f"cannot get {call.name}")

    api.before.append(refuse)
    for now in (NOW, NOW + 60, NOW + FORBIDDEN_SECONDS - 1):
        pods = [make_a_pod("a"), make_a_pod("b", "node-2")]
        assert asyncio.run(memory.read_marks(api, pods, (gone("c"),), now)) == {}
    assert len(api.calls) == 1


def test_an_unresponsive_server_makes_no_node_count_as_gone() -> None:
    api, memory = FakeApi(), NodeMemory()

    def fail(_: Call) -> None:
        raise Unavailable(0, "", "no answer")

    api.before.append(fail)
    assert asyncio.run(memory.read_marks(api, [make_a_pod()], (gone("c"),), NOW)) == {}


def test_disabled_node_reads_make_no_requests() -> None:
    api, memory = FakeApi(), NodeMemory(is_allowed=False)
    assert asyncio.run(memory.read_marks(api, [make_a_pod()], (gone("c"),), NOW)) == {}
    assert asyncio.run(memory.look(api, ["node-1"], NOW))["node-1"].state is NodeState.UNREAD
    assert api.calls == []


def make_event(name: str, uid: str, reason: str, message: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason.lower()}"},
        "involvedObject": {"kind": "Pod", "name": name, "uid": uid},
        "type": "Normal",
        "reason": reason,
        "message": message,
    }


def test_karpenters_reason_for_an_eviction_is_read_and_kept() -> None:
    api = FakeApi(nodes={"node-1": KARPENTERS})
    pipeline = make_pipeline(api.store)
    make_attempt(api.store, pipeline)
    pod = make_pod(api.store, pipeline, "corpus-1-head", "head")
    operator = Operator(api, Limits())

    def look() -> str:
        inputs, seen = operator.passes.inputs, Pod.read(pod, is_gone=is_gone)
        marks = {seen.meta.uid: read_marks(KARPENTERS)}
        notices = asyncio.run(inputs.notices.read_reasons(api, [seen], marks, api.store.time))
        evidence = next(find_pod_evidence(seen, marks[seen.meta.uid], notices))
        return str(evidence.details["reason"])

    is_gone = False
    pod["metadata"]["deletionTimestamp"] = format_time(api.store.time + 30)
    assert look() == "NodeDisrupted"
    uid, name = pod["metadata"]["uid"], "corpus-1-head"
    api.store.create(Resource.EVENT, "team", make_event(name, uid, "Killing", "Stopping"))
    event = make_event(name, uid, "Evicted", "Evicted pod: Underutilized")
    api.store.create(Resource.EVENT, "team", event)
    api.store.time += 10
    assert look() == "NodeConsolidated"
    asked = len(api.calls)
    for key in [key for key in api.store.objects if key[0] is Resource.EVENT]:
        del api.store.objects[key]
    is_gone = True
    api.store.time += 1000
    assert look() == "NodeConsolidated"
    assert len(api.calls) == asked


def test_karpenters_spot_interruption_event_is_read_from_its_node() -> None:
    api, memory = FakeApi(), NoticeMemory()
    event = make_event("node-1", "", "SpotInterrupted", "Spot interruption warning was triggered")
    event["involvedObject"] = {"kind": "Node", "name": "node-1"}
    api.store.create(Resource.EVENT, "default", event)
    marks = {"uid-of-a": read_marks(KARPENTERS)}
    for pod in (make_a_pod(deletionTimestamp=format_time(NOW)), gone()):
        notices = asyncio.run(memory.read_reasons(api, [pod], marks, NOW))
        (seen,) = find_pod_evidence(pod, marks["uid-of-a"], notices)
        assert (seen.cause, seen.details["reason"]) == (Cause.PREEMPTED, "SpotReclaimed")
    # No reasons are read for a pod that stays.
    asked = len(api.calls)
    asyncio.run(memory.read_reasons(api, [make_a_pod("b")], marks, NOW))
    assert len(api.calls) == asked


@pytest.mark.parametrize("is_deleting", [True, False])
def test_the_reason_is_read_for_a_pod_that_blocks_its_nodes_removal(is_deleting: bool) -> None:
    """Karpenter deletes the node after a spot interruption, and the cloud does not wait."""
    api, memory = FakeApi(), NoticeMemory()
    event = make_event("node-1", "", "SpotInterrupted", "Spot interruption warning was triggered")
    event["involvedObject"] = {"kind": "Node", "name": "node-1"}
    api.store.create(Resource.EVENT, "default", event)
    marks = {"uid-of-a": replace(read_marks(KARPENTERS), is_deleting=is_deleting)}
    notices = asyncio.run(memory.read_reasons(api, [make_a_pod()], marks, NOW))
    assert [notice.reason for notice in notices] == ["SpotInterrupted"] * is_deleting


def test_a_pass_sees_the_marks_of_the_nodes_of_its_pods() -> None:
    api = FakeApi(nodes={"node-1": SPOT})
    pipeline = make_pipeline(api.store)
    make_attempt(api.store, pipeline)
    make_pod(api.store, pipeline, "corpus-1-head", "head")
    operator = Operator(api, Limits())
    asyncio.run(operator.passes.run(KEY))
    asyncio.run(operator.passes.run(KEY))
    assert [call.name for call in api.calls if call.resource is Resource.NODE] == ["node-1"]
