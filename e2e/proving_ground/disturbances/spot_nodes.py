"""Marks of spot nodes and of their takers, put on a real node as clouds and their agents do.

It must not know what runs on the node, nor what is read from a mark.
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
    """Let the first node be one of spot capacity; give its name."""
    node = find_node(kube)
    kube.call("label", "node", node, f"{SPOT_LABEL}=true", "--overwrite")
    try:
        yield node
    finally:
        kube.call("label", "node", node, f"{SPOT_LABEL}-")


@contextmanager
def announce_end(kube: Kube, node: str, taint: str = IMPENDING) -> Iterator[None]:
    """Taint a node as its agent does when it hears that the node is taken."""
    kube.call("taint", "node", node, f"{taint}=:NoSchedule", "--overwrite")
    try:
        yield
    finally:
        kube.call("taint", "node", node, f"{taint}:NoSchedule-")


@contextmanager
def cordon(kube: Kube, node: str) -> Iterator[None]:
    """Cordon a node, as an admin does before a drain."""
    kube.call("cordon", node)
    try:
        yield
    finally:
        kube.call("uncordon", node)


def shut_down(kube: Kube, pod: str) -> None:
    """End a pod as a kubelet's shutdown manager writes it; the kubelet then ends its processes."""
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
