"""Sets labels and taints of spot nodes and their interruptions, as clouds and agents do.

This module must not depend on the workloads of the node or on the readers of these marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from proving_ground.cluster.kube import Json, Kube

SPOT_LABEL = "cloud.google.com/gke-spot"
IMPENDING = "cloud.google.com/impending-node-termination"
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


def find_node(kube: Kube) -> str:
    """Return the name of the first node."""
    return str(kube.list_all("nodes")[0]["metadata"]["name"])


@contextmanager
def label_as_spot(kube: Kube) -> Iterator[str]:
    """Label the first node as spot capacity and return its name."""
    node = find_node(kube)
    kube.call("label", "node", node, f"{SPOT_LABEL}=true", "--overwrite")
    try:
        yield node
    finally:
        kube.call("label", "node", node, f"{SPOT_LABEL}-")


@contextmanager
def announce_end(kube: Kube, node: str, taint: str = IMPENDING) -> Iterator[None]:
    """Taint a node as its agent does after an interruption notice."""
    kube.call("taint", "node", node, f"{taint}=:NoSchedule", "--overwrite")
    try:
        yield
    finally:
        kube.call("taint", "node", node, f"{taint}:NoSchedule-")


@contextmanager
def cordon(kube: Kube, node: str) -> Iterator[None]:
    """Cordon a node, as an administrator does before a drain."""
    kube.call("cordon", node)
    try:
        yield
    finally:
        kube.call("uncordon", node)


def shut_down(kube: Kube, pod: str) -> None:
    """Write the status of a node shutdown to a pod. The kubelet then ends the pod's processes."""
    condition: Json = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": SHUTDOWN,
    }
    current = kube.find("pod", pod)
    assert current is not None
    conditions = [*current["status"].get("conditions", []), condition]
    status: Json = {
        "phase": "Failed",
        "reason": "Terminated",
        "message": SHUTDOWN,
        "conditions": conditions,
    }
    kube.patch("pod", pod, {"status": status}, "--subresource=status")
