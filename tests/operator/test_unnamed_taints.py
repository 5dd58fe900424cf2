"""Taints that the scheduler does not name (Kubernetes 1.34 and later) are read from nodes."""

from __future__ import annotations

import pytest

from strandline_operator.decide.obstacles.room.findings import RoomKind, find_room
from strandline_operator.model.nodes.capacity import NodeSize, read_size
from test_room import NOW, find, make_notice, make_pod

UNNAMED = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."
MIXED = "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 3 node(s) "
MIXED += "had untolerated taint(s). preemption: 0/4 nodes are available: 4 Preemption is not "
MIXED += "helpful for scheduling."


def make_size(*taints: str, memory: str = "64Gi") -> NodeSize:
    """Return a node as stored in the server, with taints of these names."""
    body = {
        "metadata": {"name": "node-1"},
        "spec": {"taints": [{"key": name, "effect": "NoSchedule"} for name in taints]},
        "status": {"allocatable": {"cpu": "16", "memory": memory}},
    }
    size = read_size(body)
    assert size is not None
    return size


@pytest.mark.parametrize("words", [UNNAMED, MIXED])
@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        (["node.kubernetes.io/not-ready"], "NoRoom"),
        (["node.kubernetes.io/unreachable"], "NoRoom"),
        (["node.kubernetes.io/unschedulable"], "NoRoom"),
        (["node.kubernetes.io/disk-pressure"], "NoRoom"),
        (["node.cloudprovider.kubernetes.io/uninitialized"], "NoRoom"),
        (["node.cilium.io/agent-not-ready"], "NoRoom"),
        (["karpenter.sh/disrupted"], "NoRoom"),
        (["ToBeDeletedByClusterAutoscaler"], "NoRoom"),
        (["nvidia.com/gpu"], "NeverFits"),
        (["dedicated", "node.kubernetes.io/not-ready"], "NeverFits"),
    ],
)
def test_an_unnamed_taint_is_read_from_the_nodes(
    words: str, taints: list[str], expected: str
) -> None:
    """The scheduler of Kubernetes 1.34 counts taints, but does not name the taints."""
    others = make_size("dedicated")
    assert find(make_pod(words), sizes=(others, make_size(*taints))) == expected


@pytest.mark.parametrize("sizes", [None, (), (make_size("node.kubernetes.io/x", memory="8Gi"),)])
def test_an_unnamed_taint_without_a_large_enough_node_is_no_wait(
    sizes: tuple[NodeSize, ...] | None,
) -> None:
    finding = find_room(make_pod(UNNAMED), (), sizes, NOW)
    assert finding is not None
    assert (finding.kind, finding.is_certain) == (RoomKind.NEVER_FITS, False)


def test_a_not_ready_node_may_return_if_the_autoscaler_has_no_other() -> None:
    words = "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient "
    notice = make_notice("NotTriggerScaleUp", f"{words}cpu", "cluster-autoscaler")
    pod, sizes = make_pod(UNNAMED), (make_size("node.kubernetes.io/not-ready"),)
    assert find(pod, notice, sizes=sizes) == "NoRoom"
    assert find(pod, notice, sizes=(make_size("dedicated"),)) == "NeverFits"
