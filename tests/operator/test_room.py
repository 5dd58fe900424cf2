"""Messages of schedulers and autoscalers about pods without a node, and how each is classified.

The messages come from the sources of kube-scheduler, of the cluster autoscaler (including lines of
GKE and AKS), and of Karpenter (including EKS Auto Mode).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.notation.times import format_time
from strandline_operator.decide.obstacles.room.findings import RoomKind, find_room
from strandline_operator.model.nodes.capacity import NodeSize, Taint
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

NOW = 1_000_000.0
GIB = 1024**3
FULL = (
    "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 "
    "nodes are available: 3 No preemption victims found for incoming pod."
)
NOWHERE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
POOL = 'incompatible with nodepool "system", daemonset overhead={"cpu":"821m"}, did not tolerate x'
TUPLE = ', requirements=karpenter.sh/capacity-type In [spot], resources={"cpu":"4"}'
LARGE = (NodeSize("large", 64 * GIB, 16.0),)
SMALL = (NodeSize("small", 8 * GIB, 2.0),)
SPEC = {
    "containers": [{"name": "ray-head", "resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}]
}


def make_pod(words: str = FULL, **spec: Any) -> Pod:
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return Pod.read(
        {
            "metadata": {"name": "corpus-1-head", "uid": "uid-1"},
            "spec": SPEC | spec,
            "status": {"phase": "Pending", "conditions": [{**placed, "message": words}]},
        }
    )


def make_notice(reason: str, words: str, source: str = "", ago: float = 30.0) -> Notice:
    return Notice.read(
        {
            "involvedObject": {"kind": "Pod", "name": "corpus-1-head", "uid": "uid-1"},
            "reason": reason,
            "message": words,
            "reportingComponent": source,
            "lastTimestamp": format_time(NOW - ago),
        }
    )


def find(pod: Pod, *notices: Notice, sizes: tuple[NodeSize, ...] | None = None) -> str | None:
    finding = find_room(pod, notices, sizes, NOW)
    return None if finding is None else finding.kind.value


@pytest.mark.parametrize(
    ("reason", "words", "expected"),
    [
        # Messages of the cluster autoscaler.
        ("TriggeredScaleUp", "pod triggered scale-up: [{spot-pool 0->1 (max: 7)}]", "OnItsWay"),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max node group size reached",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 node(s) had untolerated taint(s), 3 max node group "
            "size reached",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 in backoff after failed scale-up, 3 Insufficient cpu",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 max limit "
            "reached",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 2 max cluster cpu limit reached",
            "NoRoom",
        ),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 not ready for scale-up", "NoRoom"),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: max total nodes in cluster reached",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max cluster nvidia.com/gpu limit reached, 2 node(s) "
            "didn't match Pod's node affinity/selector",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 at least one node can be vertically scaled",
            "NoRoom",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 2 Insufficient "
            "cpu",
            "NeverFits",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector",
            "NeverFits",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 3 node(s) had untolerated taint {gpu: true}",
            "NeverFits",
        ),
        (
            "FailedScaleUp",
            "Node scale up in zones us-central1-c associated with this pod failed: GCE out of "
            "resources. Pod is at risk of not being scheduled.",
            "NoRoom",
        ),
        (
            "FailedScaleUp",
            "Node scale up in zones a associated with this pod failed: GCE quota exceeded. Pod is "
            "at risk of not being scheduled.",
            "NoRoom",
        ),
        ("FailedScaleUp", "ZONE_RESOURCE_POOL_EXHAUSTED", "NoRoom"),
        (
            "FailedScaleUp",
            "InsufficientInstanceCapacity - We currently do not have sufficient",
            "NoRoom",
        ),
        (
            "FailedScaleUp",
            "MaxSpotInstanceCountExceeded: Max spot instance count exceeded",
            "NoRoom",
        ),
        ("FailedScaleUp", "ZonalAllocationFailed: Allocation failed.", "NoRoom"),
        ("FailedScaleUp", "SkuNotAvailable", "NoRoom"),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: OverconstrainedAllocationRequest",
            "NoRoom",
        ),
        # Messages of Karpenter.
        ("Nominated", "Pod should schedule on: nodeclaim/default-tn8fg", "OnItsWay"),
        (
            "FailedScheduling",
            "Failed to schedule pod, all available instance types exceed limits for nodepool: "
            '"default"',
            "NoRoom",
        ),
        (
            "FailedScheduling",
            f"Failed to schedule pod, {POOL}; all available instance types exceed limits for "
            'nodepool "graviton"',
            "NoRoom",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, node limits have been exhausted for nodepool",
            "NoRoom",
        ),
        (
            "FailedScheduling",
            f"Failed to schedule pod, no instance type has the required offering{TUPLE}",
            "NoRoom",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, no instance type met the scheduling requirements or had a "
            f"required offering{TUPLE}",
            "NoRoom",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, no instance type which had enough resources and the required "
            f"offering met the scheduling requirements{TUPLE}",
            "NoRoom",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, no instance type met the requirements/resources/offering "
            f"tuple{TUPLE}",
            "NoRoom",
        ),
        (
            "FailedScheduling",
            f"Failed to schedule pod, no instance type has enough resources{TUPLE}",
            "NeverFits",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, no instance type met the scheduling requirements or had "
            f"enough resources or had a required offering{TUPLE}",
            "NeverFits",
        ),
        (
            "FailedScheduling",
            f"Failed to schedule pod, no instance type met all requirements{TUPLE}",
            "NeverFits",
        ),
        ("FailedScheduling", f"Failed to schedule pod, {POOL}", "NeverFits"),
        (
            "FailedScheduling",
            "Failed to schedule pod, did not tolerate taint (taint=spot:NoSchedule); no instance "
            f"type has enough resources{TUPLE}",
            "NeverFits",
        ),
        (
            "InsufficientCapacityError",
            "NodeClaim default-tn8fg event: creating instance, insufficient capacity, with fleet "
            "error(s), UnfulfillableCapacity",
            "NoRoom",
        ),
    ],
)
def test_messages_of_node_creators_are_classified(reason: str, words: str, expected: str) -> None:
    """The scheduler finds no node in the empty pool, so the message of the node creator decides."""
    finding = find_room(make_pod(NOWHERE), [make_notice(reason, words, "them")], None, NOW)
    assert finding is not None
    assert (finding.kind, finding.speaker, finding.words) == (expected, "them", words)
    # Karpenter's message does not distinguish a pool near its limits from an oversized pod.
    is_small = "enough resources" in words and reason == "FailedScheduling"
    assert finding.is_certain is (expected == "NeverFits" and not is_small)


@pytest.mark.parametrize(
    ("words", "sizes", "expected"),
    [
        (FULL, None, "NoRoom"),
        (FULL, (), "NoRoom"),
        (FULL, LARGE, "NoRoom"),
        (FULL, SMALL, "NeverFits"),
        ("0/3 nodes are available: 3 Too many pods.", LARGE, "NoRoom"),
        (
            "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s).",
            None,
            "NoRoom",
        ),
        ("no nodes available to schedule pods", None, "NoRoom"),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", None, "NoRoom"),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{node.kubernetes.io/not-ready: }.",
            None,
            "NoRoom",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{ToBeDeletedByClusterAutoscaler: 17}.",
            None,
            "NoRoom",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {karpenter.sh/disrupted: }.",
            None,
            "NoRoom",
        ),
        (NOWHERE, None, "NeverFits"),
        (NOWHERE, LARGE, "NeverFits"),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint {team: other}.",
            None,
            "NeverFits",
        ),
        ("0/2 nodes are available: 2 node(s) had untolerated taint(s).", None, "NeverFits"),
        (
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            None,
            "NeverFits",
        ),
        (
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            LARGE,
            "NeverFits",
        ),
        ('0/1 nodes are available: persistentvolumeclaim "x" not found.', None, "NeverFits"),
        ("the words of another scheduler", None, None),
        ("", None, None),
    ],
)
def test_scheduler_messages_are_classified_without_an_autoscaler(
    words: str, sizes: tuple[NodeSize, ...] | None, expected: str | None
) -> None:
    assert find(make_pod(words), sizes=sizes) == expected
    finding = find_room(make_pod(words), [], sizes, NOW)
    # A finding from the scheduler's message is never certain, because a new node may appear.
    assert finding is None or not finding.is_certain


NEVER = make_notice(
    "NotTriggerScaleUp",
    "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient cpu",
    "cluster-autoscaler",
)


def test_an_existing_full_node_may_be_larger_than_new_nodes() -> None:
    assert find(make_pod(), NEVER, sizes=LARGE) == RoomKind.NO_ROOM
    assert find(make_pod(), NEVER, sizes=SMALL) == RoomKind.NEVER_FITS
    # The node would fit the pod without daemon sets. Only the autoscaler includes their share.
    assert find(make_pod(), NEVER, sizes=(NodeSize("tight", 16 * GIB, 4.0),)) == RoomKind.NEVER_FITS
    tainted = (NodeSize("large", 64 * GIB, 16.0, taints=(Taint("team", "other", "NoSchedule"),)),)
    assert find(make_pod(), NEVER, sizes=tainted) == RoomKind.NEVER_FITS
    tolerant = make_pod(tolerations=[{"key": "team", "operator": "Exists"}])
    assert find(tolerant, NEVER, sizes=tainted) == RoomKind.NO_ROOM
    chosen = make_pod(nodeSelector={"pool": "large"})
    assert find(chosen, NEVER, sizes=LARGE) == RoomKind.NEVER_FITS


def require(operator: str) -> dict[str, Any]:
    """Return the affinity that the operator adds for spot nodes, or against spot nodes."""
    expression = {"key": "capacity", "operator": operator, "values": ["spot"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize("notices", [(), (NEVER,)])
def test_a_node_excluded_by_the_affinity_has_no_room(notices: tuple[Notice, ...]) -> None:
    spot = (NodeSize("large", 64 * GIB, 16.0, labels={"capacity": "spot"}),)
    assert find(make_pod(**require("NotIn")), *notices, sizes=spot) == RoomKind.NEVER_FITS
    assert find(make_pod(**require("In")), *notices, sizes=spot) == RoomKind.NO_ROOM


def test_an_autoscalers_verdict_is_certain_only_if_nodes_are_readable() -> None:
    unread = find_room(make_pod(), [NEVER], None, NOW)
    read = find_room(make_pod(), [NEVER], SMALL, NOW)
    assert unread is not None
    assert read is not None
    assert (unread.is_certain, read.is_certain) == (False, True)


def make_claim_notice(name: str, ago: float) -> Notice:
    words = "NodeClaim default-a event: creating instance, insufficient capacity"
    at = NOW - ago
    return Notice("NodeClaim", name, "", "InsufficientCapacityError", words, at, at, "karpenter")


def test_a_failed_node_claim_is_reported_for_its_pod() -> None:
    words = "Pod should schedule on: nodeclaim/default-a"
    nominated = make_notice("Nominated", words, "karpenter", ago=60)
    assert find(make_pod(NOWHERE), nominated) == RoomKind.ON_ITS_WAY
    assert (
        find(make_pod(NOWHERE), nominated, make_claim_notice("default-a", 30)) == RoomKind.NO_ROOM
    )
    # The failed claim belongs to another pod, or Karpenter has tried a newer claim.
    other = make_claim_notice("default-b", 30)
    assert find(make_pod(NOWHERE), nominated, other) == RoomKind.ON_ITS_WAY
    again = make_notice("Nominated", "Pod should schedule on: nodeclaim/default-c", "karpenter", 9)
    tried = (nominated, make_claim_notice("default-a", 30), again)
    assert find(make_pod(NOWHERE), *tried) == RoomKind.ON_ITS_WAY


def test_an_overdue_node_is_no_longer_on_its_way() -> None:
    words = "pod triggered scale-up: [{spot-pool 0->1 (max: 7)}]"
    assert find(make_pod(), make_notice("TriggeredScaleUp", words, ago=600)) == RoomKind.ON_ITS_WAY
    assert find(make_pod(), make_notice("TriggeredScaleUp", words, ago=1000)) == RoomKind.NO_ROOM


def test_a_single_successful_autoscaler_suffices() -> None:
    nominated = make_notice("Nominated", "Pod should schedule on: nodeclaim/a", "karpenter", ago=90)
    assert find(make_pod(), NEVER, nominated, sizes=SMALL) == RoomKind.ON_ITS_WAY


def test_without_an_autoscalers_reason_the_schedulers_message_counts() -> None:
    silent = make_notice("NotTriggerScaleUp", "pod didn't trigger scale-up:", "cluster-autoscaler")
    assert find(make_pod(), silent, sizes=LARGE) == RoomKind.NO_ROOM


def test_messages_about_other_pods_are_ignored() -> None:
    other = Notice("Pod", "corpus-1-head", "uid-2", "TriggeredScaleUp", "up", NOW, NOW)
    assert find(make_pod(NOWHERE), other) == RoomKind.NEVER_FITS


def test_a_placed_or_terminating_pod_does_not_lack_room() -> None:
    assert find(make_pod(nodeName="node-1")) is None
    leaving = {"metadata": {"name": "a", "deletionTimestamp": format_time(NOW)}}
    assert find_room(Pod.read(leaving), [], None, NOW) is None


SENTENCES = st.sampled_from(
    [
        ("NotTriggerScaleUp", NEVER.message),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"),
        ("FailedScheduling", "Failed to schedule pod, no instance type has enough resources"),
        ("FailedScheduling", FULL),
        ("Nominated", "Pod should schedule on: nodeclaim/a"),
        ("TriggeredScaleUp", "pod triggered scale-up"),
        ("FailedScaleUp", "GCE out of resources"),
    ]
)
WORDS = st.sampled_from(
    [
        FULL,
        NOWHERE,
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "?",
    ]
)


@given(
    told=st.lists(st.tuples(SENTENCES, st.sampled_from(["a", "b", ""]), st.floats(0, 4000))),
    words=WORDS,
    sizes=st.sampled_from([None, (), SMALL, LARGE]),
)
def test_no_pod_counts_as_unfit_while_an_autoscaler_tries(
    told: list[tuple[tuple[str, str], str, float]],
    words: str,
    sizes: tuple[NodeSize, ...] | None,
) -> None:
    notices = [make_notice(*sentence, source, ago) for sentence, source, ago in told]
    finding = find_room(make_pod(words), notices, sizes, NOW)
    tried = {"TriggeredScaleUp", "FailedScaleUp"}
    has_tried = any(one.reason in tried and NOW - one.time <= 1700 for one in notices)
    assert not (has_tried and finding is not None and finding.kind is RoomKind.NEVER_FITS)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(containers=ODD, selector=ODD, tolerations=ODD, resources=ODD)
def test_a_pods_requests_are_read_from_odd_specs(
    containers: Any, selector: Any, tolerations: Any, resources: Any
) -> None:
    odd = [{"name": "a", "resources": resources}, {"resources": {"requests": resources}}]
    spec = {"containers": containers, "nodeSelector": selector, "tolerations": tolerations}
    for more in (spec, spec | {"containers": odd}, {"initContainers": odd}):
        pod = make_pod(**more)
        assert pod.request.cpu >= 0
        assert isinstance(pod.request.describe(), str)
        find_room(pod, [NEVER], LARGE, NOW)


def test_a_pods_requests_are_summed_and_described() -> None:
    pod = make_pod(
        containers=[
            {"name": "ray-head", "resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}}},
            {"name": "side", "resources": {"requests": {"cpu": 1, "memory": "1536Mi"}}},
        ],
        initContainers=[{"name": "fetch", "resources": {"requests": {"memory": "2Gi"}}}],
        nodeSelector={"pool": "spot"},
    )
    assert pod.request.describe() == "1.5 CPU, 2Gi of memory, 1 GPU, a node with pool=spot"
