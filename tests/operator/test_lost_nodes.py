"""Pods of a lost node: when they count as gone, and what is reported while they remain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_api import Call, FakeApi, spell_node
from operator_bodies import KEY, make_attempt, make_pipeline, make_pod
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.reasons import ConditionType
from strandline_operator.cluster.client import build_path
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.marks import (
    OUT_OF_SERVICE_TAINT,
    NodeState,
    NodeView,
    read_node,
)
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.nodes import NodeMemory, list_suspects

LOST = [NodeState.GONE, NodeState.OUT_OF_SERVICE]
WITHHELD = [NodeState.SILENT, NodeState.UNREAD]


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return an attempt that runs on two nodes."""
    cluster = SimulatedCluster()
    cluster.launch()
    for pod in cluster.list_of(Resource.POD):
        is_head = pod["metadata"]["name"].endswith("head")
        pod["spec"] = {"nodeName": "node-h" if is_head else "node-w"}
    cluster.settle()
    return cluster


def status_of(cluster: SimulatedCluster, name: str = "corpus-1") -> Any:
    return cluster.attempts[name][1]


def remove_all_but(cluster: SimulatedCluster, ending: str) -> None:
    """Tear everything down except one pod, whose node does not execute the deletion."""
    for (kind, name), body in list(cluster.objects.items()):
        if kind == Resource.POD and name.endswith(ending):
            body["metadata"]["deletionTimestamp"] = format_time(cluster.time)
        elif kind in {Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD}:
            del cluster.objects[kind, name]


def end_with_a_pod_left(cluster: SimulatedCluster, ending: str) -> None:
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(4)
    remove_all_but(cluster, ending)
    cluster.outcome = None
    cluster.advance(60)


@pytest.mark.parametrize("state", LOST)
def test_pods_of_a_lost_node_delay_nothing(cluster: SimulatedCluster, state: NodeState) -> None:
    end_with_a_pod_left(cluster, "cpu")
    assert not status_of(cluster).is_frozen
    cluster.nodes = {"node-w": NodeView(state)}
    cluster.settle()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR
    assert status_of(cluster).is_frozen
    assert list(cluster.attempts) == ["corpus-1", "corpus-2"]  # the second attempt was due
    assert [rayjob["metadata"]["name"] for rayjob in cluster.list_of(Resource.RAYJOB)] == [
        "corpus-2"
    ]


@pytest.mark.parametrize("state", WITHHELD)
def test_a_node_with_unknown_state_is_awaited_and_named(
    cluster: SimulatedCluster, state: NodeState
) -> None:
    end_with_a_pod_left(cluster, "cpu")
    cluster.nodes = {"node-w": NodeView(state)}
    cluster.settle()
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (summary.status, summary.reason) == ("Unknown", "NodeNotAnswering")
    words = f"waits for pods of node node-w, which {state}"
    assert words in summary.message
    assert words in status_of(cluster).find_condition("Succeeded").message
    cluster.advance(100_000)
    assert list(cluster.attempts) == ["corpus-1"]
    assert not status_of(cluster).is_frozen
    cluster.nodes = {}
    cluster.sweep()
    cluster.settle()
    assert status_of(cluster).is_frozen


def test_a_healthy_node_gets_time_to_delete_its_pods(cluster: SimulatedCluster) -> None:
    end_with_a_pod_left(cluster, "cpu")
    cluster.nodes = {"node-w": NodeView(NodeState.WELL)}
    cluster.settle()
    assert not status_of(cluster).is_frozen


def test_an_undeleted_pod_counts_as_alive_on_any_node(cluster: SimulatedCluster) -> None:
    cluster.nodes = {"node-h": NodeView(NodeState.GONE), "node-w": NodeView(NodeState.GONE)}
    cluster.advance(60)
    assert status_of(cluster).end_time is None


@pytest.mark.parametrize("state", [*LOST, NodeState.SILENT])
def test_a_head_stuck_on_a_lost_node_ends_the_attempt_as_node_lost(
    cluster: SimulatedCluster, state: NodeState
) -> None:
    for pod in cluster.list_of(Resource.POD):
        if pod["metadata"]["name"].endswith("head"):
            pod["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    cluster.nodes = {"node-h": NodeView(state)}
    cluster.advance(30)
    status = status_of(cluster)
    assert status.end_time is not None
    assert (status.cause, status.evidence[0].details["node"]) == (Cause.NODE_LOST, "node-h")
    assert f"node node-h of head pod corpus-1-head {state}" in status.message


def test_a_stall_is_explained_by_an_earlier_silent_node(
    cluster: SimulatedCluster,
) -> None:
    cluster.end_rayjob("Failed", "RUNNING", reason="JobStatusCheckTimeoutExceeded", message="no")
    cluster.settle()
    ended = cluster.time
    cluster.advance(25)
    remove_all_but(cluster, "head")
    cluster.nodes = {"node-h": NodeView(NodeState.SILENT, since=ended + 1)}
    cluster.advance(60)
    assert status_of(cluster).cause is Cause.STALLED  # the node became silent after the end
    cluster.nodes = {"node-h": NodeView(NodeState.SILENT, since=ended - 300)}
    cluster.settle()
    assert status_of(cluster).cause is Cause.NODE_LOST


def test_a_drivers_reported_reason_is_the_cause(cluster: SimulatedCluster) -> None:
    end_with_a_pod_left(cluster, "head")
    cluster.nodes = {"node-h": NodeView(NodeState.GONE)}
    cluster.settle()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


def test_a_deletion_does_not_wait_for_a_lost_node(cluster: SimulatedCluster) -> None:
    cluster.pipeline["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    remove_all_but(cluster, "cpu")
    cluster.nodes = {"node-w": NodeView(NodeState.SILENT)}
    cluster.advance(60)
    assert "waits for pods of node node-w, which does not answer" in cluster.status.state
    assert cluster.pipeline["metadata"]["finalizers"]
    cluster.nodes = {"node-w": NodeView(NodeState.GONE)}
    cluster.settle(3)
    assert not cluster.pipeline["metadata"]["finalizers"]


def test_remaining_pods_are_checked_less_and_less_often(cluster: SimulatedCluster) -> None:
    end_with_a_pod_left(cluster, "cpu")
    waits = []
    for _ in range(6):
        plan = cluster.pass_once()
        assert plan.wake_at is not None
        waits.append(plan.wake_at - cluster.time)
        cluster.time += 100
    assert waits == sorted(waits)
    assert (waits[0] < 30, waits[-1]) == (True, cluster.limits.resync)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, NodeView(NodeState.GONE)),
        ({}, NodeView(NodeState.WELL)),
        ({"spec": 7, "status": {"conditions": [3]}}, NodeView(NodeState.WELL)),
        (spell_node("n"), NodeView(NodeState.WELL)),
        (spell_node("n", "False"), NodeView(NodeState.WELL)),
        (spell_node("n", "Unknown"), NodeView(NodeState.SILENT)),
        (
            spell_node("n", "Unknown", since="1970-01-01T00:01:00Z"),
            NodeView(NodeState.SILENT, 60.0),
        ),
        (spell_node("n", taint=OUT_OF_SERVICE_TAINT), NodeView(NodeState.OUT_OF_SERVICE)),
        (spell_node("n", taint="node.kubernetes.io/unreachable"), NodeView(NodeState.WELL)),
    ],
)
def test_a_node_is_read_from_its_object(body: Any, expected: NodeView) -> None:
    assert read_node(body) == expected


@given(st.floats(-100, 100))
def test_law_only_a_pod_past_its_grace_puts_its_node_under_suspicion(late: float) -> None:
    metadata = {"name": "a", "deletionTimestamp": format_time(1000)}
    pod = Pod.read({"metadata": metadata, "spec": {"nodeName": "node-1"}})
    assert list_suspects([pod], 1000 + late) == (("node-1",) if late > 10 else ())
    assert list_suspects([Pod.read({"spec": {"nodeName": "node-1"}})], 1e12) == ()


def test_a_node_is_read_at_intervals_for_all_pipelines() -> None:
    api, memory = FakeApi(nodes={"a": None}), NodeMemory()

    def look(now: float) -> dict[str, NodeView]:
        return asyncio.run(memory.look(api, ("a", "b"), now))

    assert [look(now)["a"].state for now in (100.0, 109.0)] == [NodeState.GONE] * 2
    assert len(api.calls) == 2
    api.nodes.clear()
    assert look(111.0)["a"].state is NodeState.WELL
    assert build_path(Resource.NODE, None, "a") == "/api/v1/nodes/a"


def test_without_permission_to_read_nodes_their_pods_are_awaited() -> None:
    api = FakeApi()

    def refuse(call: Call) -> None:
        if call.resource is Resource.NODE:
            raise Forbidden(403, "Forbidden", "cannot get resource nodes")

    api.before.append(refuse)
    found = asyncio.run(NodeMemory().look(api, ("a",), 1.0))
    assert found == {"a": NodeView(NodeState.UNREAD)}


def test_a_pass_reads_again_only_the_node_of_an_overdue_pod() -> None:
    api = FakeApi()
    pipeline = make_pipeline(api.store)
    make_attempt(api.store, pipeline)
    for name in ("well", "overdue"):
        make_pod(api.store, pipeline, name, "worker")
    place = (Resource.POD, "team", "overdue")
    api.store.objects[place]["metadata"]["deletionTimestamp"] = format_time(api.store.time - 11)
    api.store.objects[place]["spec"] = {"nodeName": "node-9"}
    operator = Operator(api, Limits())

    def look() -> list[str]:
        api.calls.clear()
        asyncio.run(operator.passes.run(KEY))
        return [call.name for call in api.calls if call.resource is Resource.NODE]

    # A node is read early, because its object may vanish later.
    assert look() == ["node-9", "node-1"]
    api.store.time += 60
    assert look() == ["node-9"]
