"""Disruptions of pods: one test for each row of the table, with objects as on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disruption_rows import COLLECTED, EVICTED, ROWS, SHUT, D, Row, taint
from node_bodies import (
    GKE_SPOT,
    KARPENTER_SPOT,
    spell_end,
    spell_node,
    spell_pod,
    spell_status,
)
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.evidence.disruptions import SHUTDOWN_REASONS, find_mark
from strandline_operator.decide.evidence.pods import find_pod_evidence, find_reserved_name
from strandline_operator.decide.evidence.taker_marks import CONDITIONS, TAINTS
from strandline_operator.model.nodes.marks import NodeMarks, read_marks
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

Json = dict[str, Any]


def read_row(row: Row, **spec: Any) -> list[Evidence]:
    pod = Pod.read(spell_pod(row.status, **spec), is_gone=row.is_gone)
    return list(find_pod_evidence(pod, None if row.node is None else read_marks(row.node)))


@pytest.mark.parametrize("name", ROWS)
def test_the_disruption_of_a_pod_is_identified(name: str) -> None:
    row = ROWS[name]
    seen = read_row(row)[0]
    assert (seen.details["reason"], seen.cause) == (row.kind, row.kind.cause)
    assert seen.message.startswith(f"head corpus-1-head: {row.says}")
    assert seen.details["node"] == "node-1"


@pytest.mark.parametrize("name", ROWS)
def test_a_disrupted_pod_does_not_count_as_killed(name: str) -> None:
    assert {seen.cause for seen in read_row(ROWS[name])} <= {
        Cause.PREEMPTED,
        Cause.EVICTED,
        Cause.NODE_LOST,
    }


def test_every_kind_and_every_mark_has_a_row() -> None:
    # Only Karpenter's events, tested below, name these disruptions.
    by_events = {D.NODE_CONSOLIDATED, D.NODE_DRIFTED, D.NODE_EXPIRED}
    assert {row.kind for row in ROWS.values()} == set(Disruption) - by_events
    played = [read_marks(row.node) for row in ROWS.values() if row.node is not None]
    taints = {name for marks in played for name, _ in marks.taints}
    conditions = {name for marks in played for name, _ in marks.conditions}
    assert {mark.name for mark in TAINTS} <= taints
    assert {mark.name for mark in CONDITIONS} <= conditions


def test_the_page_lists_every_mark_with_its_disruption() -> None:
    """The generated documentation lists all marks that the operator looks for."""
    page = (Path(__file__).parents[2] / "docs" / "failures.md").read_text(encoding="utf-8")
    rows = {kind: next(row for row in page.splitlines() if row.startswith(f"| `{kind}` |"))
            for kind in Disruption}  # fmt: skip
    for mark in (*TAINTS, *CONDITIONS):
        assert f"`{mark.name}`" in rows[mark.kind], mark
        assert mark.spot_kind is None or f"`{mark.name}`" in rows[mark.spot_kind], mark
    for reason in SHUTDOWN_REASONS:
        assert f"`{reason}`" in rows[D.NODE_SHUTDOWN]
    for kind, row in rows.items():
        assert f"| `{kind.cause}` |" in row
        assert kind.advice in row


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("Evicted", "Evicted pod: Underutilized", D.NODE_CONSOLIDATED),
        ("Evicted", "Evicted pod: Empty", D.NODE_CONSOLIDATED),
        ("Evicted", "Evicted pod: Drifted", D.NODE_DRIFTED),
        ("Evicted", "Evicted pod: Expired", D.NODE_EXPIRED),
        ("Evicted", "Evicted pod: Forceful Termination", D.NODE_DISRUPTED),
        ("DisruptionTerminating", "Disrupting Node: Underutilized/Delete", D.NODE_CONSOLIDATED),
        ("DisruptionTerminating", "Disrupting Node: Drift/Replace", D.NODE_DRIFTED),
        ("SpotInterrupted", "Spot interruption warning was triggered", D.SPOT_RECLAIMED),
        ("Evicted", "The node was low on resource: empty-dir", D.NODE_DISRUPTED),
        ("Killing", "Stopping container ray-head, which drifted", D.NODE_DISRUPTED),
    ],
)
def test_karpenters_events_identify_the_disruption(
    reason: str, message: str, kind: Disruption
) -> None:
    is_pods = reason == "Evicted"
    about = {"kind": "Pod", "name": "corpus-1-head", "uid": "uid-of-head"}
    event = {"involvedObject": about if is_pods else {"kind": "Node", "name": "node-1"}}
    notice = Notice.read({**event, "reason": reason, "message": message})
    marks = read_marks(taint("karpenter.sh/disrupted", "", KARPENTER_SPOT))
    pod = Pod.read(spell_pod(EVICTED))
    seen = next(find_pod_evidence(pod, marks, [notice]))
    assert seen.details["reason"] == kind
    other = Notice.read({"involvedObject": {"kind": "Pod", "uid": "other"}, "message": message})
    seen = next(find_pod_evidence(pod, marks, [other]))
    assert seen.details["reason"] == D.NODE_DISRUPTED


ASKS = [
    {"nodeSelector": {"cloud.google.com/gke-spot": "true"}},
    {"nodeSelector": {"eks.amazonaws.com/capacityType": "SPOT"}},
    {"tolerations": [{"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal",
                      "value": "spot", "effect": "NoSchedule"}]},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}]}}}},
]  # fmt: skip
DOES_NOT_ASK = [
    {},
    {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}},
    {"tolerations": [{"operator": "Exists"}]},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "karpenter.sh/capacity-type", "operator": "In",
             "values": ["spot", "on-demand"]}]}]}}}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7}}},
]  # fmt: skip


@pytest.mark.parametrize("spec", ASKS)
@pytest.mark.parametrize("status", [SHUT, COLLECTED])
def test_a_pod_requiring_spot_was_on_spot_if_its_node_is_unreadable(
    spec: Json, status: Json
) -> None:
    (seen,) = read_row(Row(D.SPOT_RECLAIMED, status, None, ""), **spec)
    assert (seen.cause, seen.details["reason"]) == (Cause.PREEMPTED, D.SPOT_RECLAIMED)
    # The node's own labels take precedence over the pod's preference.
    (seen,) = read_row(Row(D.NODE_SHUTDOWN, status, spell_node(), ""), **spec)
    assert seen.cause is Cause.NODE_LOST


@pytest.mark.parametrize("spec", DOES_NOT_ASK)
def test_a_pod_merely_preferring_spot_does_not_count_as_on_spot(spec: Json) -> None:
    (seen,) = read_row(Row(D.NODE_SHUTDOWN, SHUT, None, ""), **spec)
    assert seen.cause is Cause.NODE_LOST


def test_a_pod_ending_on_a_cordoned_node_was_not_disrupted() -> None:
    cordoned = read_marks(spell_node(unschedulable=True, labels=GKE_SPOT))
    pod = Pod.read(spell_pod(spell_status("Failed", state=spell_end(1))))
    assert list(find_pod_evidence(pod, cordoned)) == []
    killed = Pod.read(spell_pod(spell_status("Failed", state=spell_end(137))))
    assert [seen.cause for seen in find_pod_evidence(killed, cordoned)] == [Cause.KILLED]


def test_a_restarted_pod_on_a_marked_node_was_not_disrupted() -> None:
    status = spell_status("Running", state={"running": {"startedAt": "2026-11-26T04:00:00Z"}})
    status["containerStatuses"][0]["lastState"] = spell_end(1)
    marked = read_marks(taint("aws-node-termination-handler/spot-itn"))
    assert list(find_pod_evidence(Pod.read(spell_pod(status)), marked)) == []
    status["containerStatuses"][0] |= {"state": spell_end(1)}
    assert [seen.cause for seen in find_pod_evidence(Pod.read(spell_pod(status)), marked)] == [
        Cause.PREEMPTED
    ]


def test_lost_containers_of_a_deleted_pod_are_no_evidence() -> None:
    """A kubelet also writes this status for a deleted pod whose containers it has not read yet."""
    body = spell_pod(spell_status("Running", state=spell_end(137, "ContainerStatusUnknown")))
    body["metadata"]["deletionTimestamp"] = "2026-11-26T04:00:00Z"
    assert list(find_pod_evidence(Pod.read(body), read_marks(spell_node()))) == []
    assert list(find_pod_evidence(Pod.read(body, is_gone=True), read_marks(spell_node()))) == []


def test_a_memory_kill_is_reported_beside_a_shutdown() -> None:
    status = {**SHUT, "containerStatuses": [
        {"name": "ray-worker", "state": spell_end(137, "OOMKilled")}]}  # fmt: skip
    found = {seen.cause for seen in read_row(Row(D.NODE_SHUTDOWN, status, None, ""))}
    assert found == {Cause.NODE_LOST, Cause.OOM_KILLED}


@pytest.mark.parametrize(
    "marks",
    [
        NodeMarks("node-1", is_gone=True),
        NodeMarks("node-1", is_deleting=True),
        NodeMarks("node-1", is_silent=True),
    ],
)
def test_a_memory_kill_is_not_explained_by_a_later_node_loss(marks: NodeMarks) -> None:
    """An autoscaler removes the node after the kill, because the node is empty then."""
    pod = Pod.read(spell_pod(spell_status("Failed", state=spell_end(137, "OOMKilled"))))
    assert [seen.cause for seen in find_pod_evidence(pod, marks)] == [Cause.OOM_KILLED]
    killed = Pod.read(spell_pod(spell_status("Failed", state=spell_end(137, "Error"))))
    assert next(find_pod_evidence(killed, marks)).cause is Cause.NODE_LOST


def test_law_only_a_shortage_and_a_limit_advise_to_raise_anything() -> None:
    asking = {
        kind for kind in Disruption if "aise" in kind.advice and "`consolidate" not in kind.advice
    }
    assert asking == {D.NODE_SHORTAGE, D.POD_OVER_LIMIT}
    assert {kind for kind in Disruption if "requests" in kind.advice} == {D.NODE_SHORTAGE}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": ODD | st.fixed_dictionaries({"labels": ODD, "name": ODD}),
        "spec": ODD | st.fixed_dictionaries(
            {"taints": ODD, "affinity": ODD, "nodeSelector": ODD, "tolerations": ODD,
             "terminationGracePeriodSeconds": ODD}),
        "status": ODD | st.fixed_dictionaries(
            {"conditions": ODD, "reason": ODD, "containerStatuses": ODD}),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "is_kept"),
    [
        ('failed to reserve container name "a": name "a" is reserved for "b"', True),
        ("error reserving ctr name k8s_ray-head_x for id 1: name is reserved", True),
        ('Conflict. The container name "/k8s_ray-head_x" is already in use by container 1', True),
        ("failed to create containerd task: exec format error", False),
    ],
)
def test_a_reserved_container_name_is_recognized_in_each_runtimes_message(
    words: str, *, is_kept: bool
) -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": words}}
    seen = find_reserved_name(Pod.read(spell_pod(spell_status("Running", state=waiting))))
    assert (seen is not None) is is_kept
    assert seen is None or seen.details["reason"] == D.NODE_RESTARTED


@pytest.mark.parametrize("labels", [GKE_SPOT, {}])
def test_evidence_records_spot_nodes_for_any_disruption(labels: Json) -> None:
    row = Row(D.NODE_DRAINED, EVICTED, spell_node(labels=labels, unschedulable=True), "")
    (seen,) = read_row(row)
    assert (seen.cause, seen.details.get("capacity")) == (
        Cause.EVICTED,
        "spot" if labels else None,
    )


@given(PARTS, PARTS)
def test_law_odd_objects_are_read_without_an_error(pod: Json, node: Json) -> None:
    list(find_pod_evidence(Pod.read(pod), read_marks(node)))
    assert isinstance(find_mark(Pod.read(pod), read_marks(node)), object)


def test_marks_ignore_ordinary_changes_of_a_node() -> None:
    node = spell_node(labels=GKE_SPOT)
    before = read_marks(node)
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-26T04:00:00Z"
    node["status"]["images"] = [{"names": ["x"] * 50}]
    node["metadata"]["resourceVersion"] = "7"
    assert read_marks(node) == before == NodeMarks("node-1", is_spot=True)
