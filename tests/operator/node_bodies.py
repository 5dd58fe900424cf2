"""Pods and nodes during disruptions, as kubelets, clouds, Karpenter, and others write them.

Each function returns an object as stored in the API server, or the written part. The module must
not depend on how the operator interprets the objects.
"""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]
GKE_SPOT = {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-provisioning": "spot"}
EKS_SPOT = {"eks.amazonaws.com/capacityType": "SPOT"}
KARPENTER_SPOT = {"karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "batch"}
KARPENTER_ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "batch"}
AKS_SPOT = {"kubernetes.azure.com/scalesetpriority": "spot"}
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
REJECTED = "Pod was rejected as the node is shutting down."
OLD_SHUTDOWN = "Node is shutting, evicting pods"
LOW_ON_MEMORY = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92168Ki. Container"
    " ray-worker was using 7801240Ki, request is 4Gi, has larger consumption of memory. "
)
NOT_FOUND = "The container could not be located when the pod was terminated"


def spell_node(name: str = "node-1", labels: Body | None = None, **more: Any) -> Body:
    """Return a healthy node, changed by the given taints, conditions, and spec fields."""
    taints, conditions = more.pop("taints", []), more.pop("conditions", [])
    ready = [] if any(each["type"] == "Ready" for each in conditions) else [spell_ready()]
    metadata = {"name": name, "uid": f"uid-of-{name}", "labels": labels or {}}
    metadata |= more.pop("metadata", {})
    return {
        "metadata": metadata,
        "spec": {"providerID": f"cloud:///{name}", "taints": taints, **more},
        "status": {"conditions": [*conditions, *ready]},
    }


def spell_ready(status: str = "True", message: str = "kubelet is posting ready status") -> Body:
    reasons = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}
    return {"type": "Ready", "status": status, "reason": reasons[status], "message": message}


def spell_taint(key: str, value: str = "", effect: str = "NoSchedule") -> Body:
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def spell_condition(kind: str, reason: str = "", message: str = "") -> Body:
    return {"type": kind, "status": "True", "reason": reason or kind, "message": message}


SHUTTING_DOWN = spell_ready("False", "node is shutting down")
SILENT = spell_ready("Unknown", "Kubelet stopped posting node status.")
UNSCHEDULABLE = spell_taint("node.kubernetes.io/unschedulable")


def spell_target(reason: str, message: str = "") -> Body:
    """Return a pod's condition DisruptionTarget."""
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


def spell_end(code: int = 137, reason: str = "Error", message: str = "") -> Body:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def spell_status(
    phase: str = "Failed",
    reason: str = "",
    message: str = "",
    *,
    target: Body | None = None,
    state: Body | None = None,
) -> Body:
    """Return a pod's status. By default, its container is running."""
    container = {"name": "ray-worker", "state": state or {"running": {}}}
    status: Body = {"phase": phase, "containerStatuses": [container]}
    status |= {"conditions": [target]} if target else {}
    return status | ({"reason": reason, "message": message} if reason else {})


def end_by_shutdown(code: int = 137) -> Body:
    """Return the status that a kubelet writes at node shutdown, since Kubernetes 1.26."""
    target = spell_target("TerminationByKubelet", SHUTDOWN)
    return spell_status("Failed", "Terminated", SHUTDOWN, target=target, state=spell_end(code))


def end_by_eviction() -> Body:
    """Return the status of a pod after an eviction through the API, before the deletion."""
    return spell_status(
        "Running", target=spell_target("EvictionByEvictionAPI", "Eviction API: evicting")
    )


def spell_pod(status: Body, role: str = "head", **spec: Any) -> Body:
    """Return a pod of an attempt on `node-1`."""
    labels = {"strandline.dev/role": role, "strandline.dev/attempt": "1"}
    labels |= {"strandline.dev/group": "cpu"} if role == "worker" else {}
    metadata = {"name": f"corpus-1-{role}", "namespace": "team", "uid": f"uid-of-{role}"}
    return {
        "metadata": {**metadata, "labels": labels},
        "spec": {"nodeName": "node-1", **spec},
        "status": status,
    }
