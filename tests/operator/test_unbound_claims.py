"""If a pod's claim has no volume, every message names the claim, and the start costs one retry."""

from __future__ import annotations

from typing import Any

import pytest

from agreeing_conditions import find_contradictions
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.plan import Resource
from test_droughts import FULL, place, unplace

GIB = 1024**3
ADVICE = Reason.UNSCHEDULABLE.advice
# The scheduler's messages, from several releases.
UNBOUND = [
    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 "
    "nodes are available: 3 Preemption is not helpful for scheduling.",
    "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.",
    "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
    '0/3 nodes are available: storageclass.storage.k8s.io "fast" not found.',
    '0/3 nodes are available: persistentvolumeclaim "corpus-ledger" not found.',
    "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) did not have enough free storage.",
    'persistentvolumeclaim "corpus-ledger" bound to non-existent persistentvolume "pv-7".',
    'running "VolumeBinding" filter plugin for pod "corpus-1-head": error getting PVC '
    '"team/corpus-ledger": could not find v1.PersistentVolumeClaim "team/corpus-ledger"',
    "0/3 nodes are available: waiting for ephemeral volume controller to create the "
    'persistentvolumeclaim "corpus-1-head-scratch".',
]
AUTOSCALER = "pod didn't trigger scale-up: 2 pod has unbound immediate PersistentVolumeClaims"
NEVER = (
    "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 2 pod has unbound "
    "immediate PersistentVolumeClaims"
)


def start(words: str, ending: str = "", **spec: Any) -> SimulatedCluster:
    """Return an attempt whose pods wait for a claim without a volume."""
    cluster = SimulatedCluster()
    cluster.edit(**spec)
    cluster.settle()
    for claim in cluster.list_of(Resource.CLAIM):
        claim["status"] = {"phase": "Pending"}
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, ending, words)
    cluster.settle()
    return cluster


def play(cluster: SimulatedCluster, seconds: float) -> None:
    """Advance the time. The pods of later attempts wait for the same claim."""
    end = cluster.time + seconds
    while cluster.time < end:
        cluster.advance(60.0)
        cluster.sweep()
        cluster.settle()
        check(cluster)
        if any("status" not in rayjob for rayjob in cluster.list_of(Resource.RAYJOB)):
            cluster.start_rayjob()
            cluster.end_rayjob("Initializing", "")
            unplace(cluster, "", UNBOUND[0])


def check(cluster: SimulatedCluster) -> None:
    """Check that no two messages of the status contradict each other or blame the nodes."""
    written = cluster.status.to_json()
    assert find_contradictions(written) == []
    for condition in written["conditions"]:
        assert ADVICE not in condition["message"], condition
    assert ADVICE not in cluster.status.state


def summary(cluster: SimulatedCluster) -> tuple[str, str]:
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.parametrize("words", UNBOUND)
def test_state_and_conditions_name_the_claim(words: str) -> None:
    cluster = start(words)
    cluster.advance(90.0)
    check(cluster)
    reason, message = summary(cluster)
    assert reason == Reason.CLAIM_PENDING
    assert words.partition(". preemption")[0].rstrip(".") in message
    assert "kubectl describe pvc" in message
    attempt = cluster.attempts["corpus-1"][1].find_condition("Succeeded")
    assert attempt is not None
    assert attempt.reason == Reason.CLAIM_PENDING


@pytest.mark.parametrize("words", UNBOUND)
def test_one_start_is_charged_and_the_cause_names_the_claim(words: str) -> None:
    cluster = start(words)
    play(cluster, 4 * 3600.0)
    assert list(cluster.attempts) == ["corpus-1"]
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.VOLUME_UNUSABLE
    assert cluster.status.phase is PipelinePhase.FAILED
    assert summary(cluster)[0] == Cause.VOLUME_UNUSABLE
    assert words.partition(". preemption")[0].rstrip(".") in status.message


@pytest.mark.parametrize("words", [AUTOSCALER, NEVER])
def test_an_autoscalers_message_about_a_claim_blames_no_node(words: str) -> None:
    cluster = start(UNBOUND[0])
    cluster.warn("Pod", "corpus-1-head", "NotTriggerScaleUp", words)
    cluster.notices[-1]["reportingComponent"] = "cluster-autoscaler"
    cluster.sizes = (NodeSize("small", 64 * GIB, 16.0),)
    cluster.advance(90.0)
    check(cluster)
    assert summary(cluster)[0] == Reason.CLAIM_PENDING
    play(cluster, 3600.0)
    assert cluster.attempts["corpus-1"][1].cause is Cause.VOLUME_UNUSABLE


def test_a_bound_claim_lets_the_attempt_continue() -> None:
    cluster = start(UNBOUND[0])
    cluster.advance(1200.0)
    cluster.bind_claim()
    place(cluster, "")
    cluster.set_pod("", phase="Running")
    cluster.end_rayjob("Running", "RUNNING")
    cluster.settle()
    assert summary(cluster)[0] == "Running"
    cluster.finish()
    assert cluster.status.phase is PipelinePhase.SUCCEEDED
    assert cluster.status.retries is not None
    assert cluster.status.retries.retries == 0


def test_an_unbound_claim_takes_precedence_over_a_full_cluster() -> None:
    cluster = start(UNBOUND[0], "head")
    unplace(cluster, "cpu", FULL)
    cluster.advance(90.0)
    check(cluster)
    assert summary(cluster)[0] == Reason.CLAIM_PENDING


@pytest.mark.parametrize(
    ("phase", "is_deleting", "words", "expected"),
    [
        ("Lost", False, UNBOUND[6], Reason.CLAIM_LOST),
        (
            "Pending",
            True,
            '0/3 nodes are available: persistentvolumeclaim "corpus-ledger" is being deleted.',
            Reason.CLAIM_DELETED,
        ),
    ],
)
def test_a_claim_with_a_worse_defect_has_its_own_reason(
    phase: str, words: str, expected: Reason, *, is_deleting: bool
) -> None:
    cluster = start(words)
    for claim in cluster.list_of(Resource.CLAIM):
        claim["status"] = {"phase": phase}
        if is_deleting:
            claim["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    cluster.advance(90.0)
    check(cluster)
    reason, message = summary(cluster)
    assert reason == expected
    assert words.rstrip(".") in message
    storage = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert storage is not None
    assert storage.reason == expected


# Messages about a claim of the user's pod template, or about the claim's volume.
OF_TEMPLATES = [
    *UNBOUND,
    '0/3 nodes are available: persistentvolumeclaim "models" not found.',
    '0/3 nodes are available: persistentvolumeclaim "models" is being deleted.',
    "0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to "
    "non-existent pv(s).",
    'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
    'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "models"',
    "PVC team/corpus-1-head-scratch was not created for pod team/corpus-1-head (pod is not owner)",
]


def start_with_template(words: str, ending: str = "") -> SimulatedCluster:
    """Return an attempt that waits for a claim of a pod template. The pipeline's claim is bound."""
    cluster = start(words, ending)
    cluster.bind_claim()
    for pod in cluster.list_of(Resource.POD):
        pod.setdefault("spec", {})["volumes"] = [
            {"name": "ledger", "persistentVolumeClaim": {"claimName": "corpus-ledger"}},
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "code", "configMap": {"name": "corpus-1"}},
        ]
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("words", "ending"),
    [*((words, "head") for words in OF_TEMPLATES), (UNBOUND[0], "cpu"), (UNBOUND[0], "")],
)
def test_a_claim_of_a_pod_template_ends_as_the_pipelines_own_does(words: str, ending: str) -> None:
    cluster = start_with_template(words, ending)
    cluster.advance(90.0)
    check(cluster)
    reason, message = summary(cluster)
    assert reason == Reason.CLAIM_PENDING
    assert words.partition(". preemption")[0].rstrip(".") in message
    assert "kubectl describe pvc" in message
    play(cluster, 3600.0)
    assert list(cluster.attempts) == ["corpus-1"]
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.VOLUME_UNUSABLE
    assert "node selector" not in status.message
    assert words.partition(". preemption")[0].rstrip(".") in status.message
    assert summary(cluster)[0] == Cause.VOLUME_UNUSABLE


def test_the_message_names_the_templates_unbound_claim() -> None:
    cluster = start_with_template(UNBOUND[0], "head")
    cluster.advance(90.0)
    assert "claim models: 0/3 nodes" in summary(cluster)[1]
    assert "corpus-ledger" not in summary(cluster)[1]


@pytest.mark.parametrize(("ending", "node"), [("head", "head"), ("cpu", "group")])
def test_a_claim_is_found_in_the_pod_template_of_the_spec(ending: str, node: str) -> None:
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    template = {"spec": {"volumes": [volume]}}
    group = {"name": "cpu", "minReplicas": 1} | (
        {"podTemplate": template} if node == "group" else {}
    )
    head = {"podTemplate": template} if node == "head" else {}
    cluster = start(UNBOUND[0], ending, ray={"head": head, "workerGroups": [group]})
    cluster.bind_claim()
    cluster.advance(90.0)
    assert "claim models: 0/3 nodes" in summary(cluster)[1]
    cluster.advance(3600.0)
    assert cluster.attempts["corpus-1"][1].cause is Cause.VOLUME_UNUSABLE


def test_a_claim_used_by_another_pod_does_not_count_as_unbound() -> None:
    words = (
        "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name "
        "and ReadWriteOncePod access mode."
    )
    cluster = start_with_template(words)
    cluster.advance(90.0)
    assert summary(cluster)[0] == Reason.CLAIM_IN_USE
    cluster.advance(3600.0)
    assert cluster.attempts["corpus-1"][1].cause is Cause.SCHEDULING_TIMEOUT


def test_a_missing_volume_is_named_without_a_scheduler_message() -> None:
    cluster = start(UNBOUND[0])
    for claim in cluster.list_of(Resource.CLAIM):
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-1"}
    for pod in cluster.list_of(Resource.POD):
        # The scheduler has chosen a node and waits for the volume. The pod has no condition.
        pod["status"] = {"phase": "Pending"}
        volume = {"name": "ledger", "persistentVolumeClaim": {"claimName": "corpus-ledger"}}
        pod["spec"] = {"volumes": [volume]}
    cluster.advance(90.0)
    check(cluster)
    reason, message = summary(cluster)
    assert reason == Reason.CLAIM_PENDING
    assert "claim corpus-ledger" in message
    cluster.advance(3600.0)
    assert cluster.attempts["corpus-1"][1].cause is Cause.VOLUME_UNUSABLE
    assert "claim corpus-ledger" in cluster.attempts["corpus-1"][1].message
