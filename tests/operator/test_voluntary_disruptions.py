"""Voluntary disruptions spare the head, and optionally the workers, also by a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.spec.pod_paths import MESH_KEYS
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.attempts.drains import read_drain
from strandline_operator.model.nodes.marks import NodeMarks, read_marks
from strandline_operator.model.plan import Create, Resource
from test_render import pods_of, render

KARPENTER = "karpenter.sh/do-not-disrupt"
AUTOSCALER = "cluster-autoscaler.kubernetes.io/safe-to-evict"
WAITS = {KARPENTER: "true", AUTOSCALER: "false"}
GROUPS = [{"name": "cpu", "minReplicas": 1, "maxReplicas": 4}, {"name": "gpu", "minReplicas": 2}]


def list_annotations(**ray: Any) -> dict[str, dict[str, str]]:
    pods = pods_of(render(ray={"workerGroups": [{"name": "cpu"}], **ray}))
    found = {name: pod["metadata"].get("annotations", {}) for name, pod in pods.items()}
    return {
        name: {key: value for key, value in listed.items() if key not in MESH_KEYS}
        for name, listed in found.items()
    }


def budgets(**ray: Any) -> list[dict[str, Any]]:
    cluster = SimulatedCluster()
    cluster.edit(ray={"workerGroups": GROUPS, **ray})
    cluster.settle()
    return cluster.list_of(Resource.DISRUPTION_BUDGET)


def test_only_the_head_and_the_submitter_are_protected() -> None:
    """The submitter is protected, too, because a run fails without its submitter."""
    assert list_annotations() == {"head": WAITS, "cpu": {}, "submitter": WAITS}


@pytest.mark.parametrize(
    ("wanted", "head", "worker"),
    [
        ({"workers": "Wait"}, WAITS, WAITS),
        ({"head": "Allow"}, {}, {}),
        ({"head": "Allow", "workers": "Wait"}, {}, WAITS),
    ],
)
def test_the_protected_pods_can_be_chosen(wanted: Any, head: Any, worker: Any) -> None:
    shown = list_annotations(voluntaryDisruptions=wanted)
    assert (shown["head"], shown["submitter"], shown["cpu"]) == (head, head, worker)


def test_a_users_template_can_change_the_protection() -> None:
    template = {"metadata": {"annotations": {AUTOSCALER: "true", "team": "web"}}}
    shown = list_annotations(head={"podTemplate": template})["head"]
    assert shown == {KARPENTER: "true", AUTOSCALER: "true", "team": "web"}


def test_a_budget_is_made_only_on_request() -> None:
    assert budgets() == []
    assert budgets(voluntaryDisruptions={"workers": "Wait"}) == []
    assert budgets(voluntaryDisruptions={"head": "Allow", "podDisruptionBudget": True}) == []


def test_a_budget_protects_head_and_submitter() -> None:
    (budget,) = budgets(voluntaryDisruptions={"podDisruptionBudget": True})
    metadata, spec = budget["metadata"], budget["spec"]
    assert metadata["name"] == "corpus-1"
    assert [owner["name"] for owner in metadata["ownerReferences"]] == ["corpus-1"]
    assert spec["minAvailable"] == 2
    (chosen,) = spec["selector"]["matchExpressions"]
    assert (chosen["key"], chosen["operator"]) == ("strandline.dev/role", "In")
    for name, is_chosen in {"head": True, "submitter": True, "cpu": False}.items():
        labels = pods_of(render())[name]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert (labels[chosen["key"]] in chosen["values"]) == is_chosen
    # A pod that has never been ready does not block a drain.
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_budget_protects_all_workers() -> None:
    wanted = {"workers": "Wait", "podDisruptionBudget": True}
    (budget,) = budgets(voluntaryDisruptions=wanted)
    assert budget["spec"]["minAvailable"] == 1 + 1 + 4 + 2


def test_a_budget_counts_no_submitter_where_the_head_pod_submits() -> None:
    """A budget that counts a missing submitter would forbid all evictions."""
    wanted = {"workers": "Wait", "podDisruptionBudget": True}
    (budget,) = budgets(voluntaryDisruptions=wanted, submissionMode="SidecarMode")
    assert budget["spec"]["minAvailable"] == 1 + 4 + 2
    (chosen,) = budget["spec"]["selector"]["matchExpressions"]
    assert "submitter" not in chosen["values"]


def test_the_budget_exists_before_the_pods() -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={"voluntaryDisruptions": {"podDisruptionBudget": True}})
    cluster.settle()
    kinds = [
        action.resource
        for plan in cluster.plans
        for action in plan.actions
        if isinstance(action, Create) and action.manifest["metadata"]["name"] == "corpus-1"
    ]
    assert kinds.index(Resource.DISRUPTION_BUDGET) < kinds.index(Resource.RAYJOB)


BUDGET = {"podDisruptionBudget": True}
CORDONED = {"node-1": NodeMarks("node-1", is_cordoned=True)}
DELETED = {"node-1": NodeMarks("node-1", is_deleting=True)}


def run(marks: dict[str, NodeMarks], **wanted: Any) -> SimulatedCluster:
    """Return a running attempt, its head on `node-1` and its worker on `node-2`."""
    cluster = SimulatedCluster(marks=marks)
    cluster.edit(ray={"workerGroups": [{"name": "cpu"}], "voluntaryDisruptions": wanted})
    cluster.settle()
    cluster.start_rayjob()
    pods = pods_of(cluster.list_of(Resource.RAYJOB)[0])
    for name, node in (("head", "node-1"), ("cpu", "node-2")):
        body = cluster.objects[Resource.POD, f"corpus-1-{name}"]
        body["spec"] = {"nodeName": node}
        body["metadata"]["annotations"] = pods[name]["metadata"].get("annotations", {})
    cluster.settle()
    return cluster


def told(cluster: SimulatedCluster) -> tuple[str, str]:
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    return summary.reason, summary.message


def test_a_drain_blocked_by_a_budget_is_reported() -> None:
    cluster = run(CORDONED, **BUDGET)
    reason, message = told(cluster)
    assert reason == Reason.DRAIN_HELD_BACK
    assert "node node-1 is cordoned and waits for the PodDisruptionBudget of head pod" in message
    assert "Suspend the pipeline" in message
    (event,) = [event for event in cluster.events if event.reason == "Blocked"]
    assert "node-1" in event.message
    cluster.marks = {}
    cluster.settle()
    assert told(cluster)[0] == Reason.RUNNING


def test_karpenters_removal_of_a_node_is_blocked_by_annotations() -> None:
    assert told(run(DELETED))[0] == Reason.DRAIN_HELD_BACK


@pytest.mark.parametrize(
    ("marks", "wanted"),
    [
        # `kubectl drain` ignores annotations.
        (CORDONED, {}),
        (DELETED, {"head": "Allow"}),
        (CORDONED, {"head": "Allow", **BUDGET}),
        ({"node-2": NodeMarks("node-2", is_deleting=True)}, BUDGET),
    ],
)
def test_an_unblocked_drain_is_no_news(marks: Any, wanted: Any) -> None:
    assert told(run(marks, **wanted))[0] == Reason.RUNNING


@pytest.mark.parametrize(("marks", "wanted"), [(DELETED, {}), (CORDONED, BUDGET)])
def test_a_node_with_only_the_submitter_is_protected(marks: Any, wanted: Any) -> None:
    cluster = run({"node-3": replace(marks["node-1"], name="node-3")}, **wanted)
    submitter = pods_of(cluster.list_of(Resource.RAYJOB)[0])["submitter"]["metadata"]
    cluster.add_pod("corpus-1-xyz", submitter["labels"])
    body = cluster.objects[Resource.POD, "corpus-1-xyz"]
    body["spec"] = {"nodeName": "node-3"}
    body["metadata"]["annotations"] = submitter.get("annotations", {})
    cluster.settle()
    reason, message = told(cluster)
    assert reason == Reason.DRAIN_HELD_BACK
    assert "of submitter pod corpus-1-xyz" in message


def test_protected_workers_block_drains_too() -> None:
    cluster = run({"node-2": NodeMarks("node-2", is_deleting=True)}, workers="Wait")
    assert "worker pod corpus-1-cpu" in told(cluster)[1]


@pytest.mark.parametrize(
    ("spec", "metadata", "expected"),
    [
        ({}, {}, None),
        ({"unschedulable": True}, {}, "is cordoned"),
        ({"unschedulable": "yes"}, {}, None),
        ({"taints": [{"key": "karpenter.sh/disrupted"}]}, {}, "is being taken down by Karpenter"),
        ({"taints": [{"key": "karpenter.sh/disruption"}]}, {}, "is being taken down by Karpenter"),
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
        (
            {"unschedulable": True, "taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]},
            {},
            "is being taken down by the cluster autoscaler",
        ),
        ({"taints": "odd"}, "odd", None),
    ],
)
def test_a_drain_is_read_from_the_node(spec: Any, metadata: Any, expected: str | None) -> None:
    drain = read_drain(read_marks({"spec": spec, "metadata": metadata}))
    assert (drain and drain.words) == expected
