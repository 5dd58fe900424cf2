"""Derives the status of a RayCluster from its pods.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from kuberay_standin.objects import (
    NODE_LABEL,
    Json,
    find_condition,
    format_time,
    get_name,
    get_status,
    has_condition,
)
from kuberay_standin.rayclusters.pods import find_ports, name_service
from kuberay_standin.rayclusters.quantities import (
    format_bytes,
    format_count,
    sum_devices,
    sum_requests,
)
from kuberay_standin.scene import Trouble

NO_RESOURCES = {"desiredCPU": "0", "desiredGPU": "0", "desiredMemory": "0", "desiredTPU": "0"}


def describe_cluster(
    cluster: Json, pods: Sequence[Json], now: datetime, trouble: Trouble | None = None
) -> Json:
    """Return the status of a RayCluster with these pods.

    `trouble` is a pod that could not be created, or None. `state` becomes `ready` once all pods are
    ready, and then stays so.
    """
    heads = [pod for pod in pods if pod["metadata"]["labels"][NODE_LABEL] == "head"]
    workers = [pod for pod in pods if pod["metadata"]["labels"][NODE_LABEL] == "worker"]
    head = heads[0] if heads else None
    sizes = _count_sizes(cluster)
    running = sum(get_status(pod).get("phase") == "Running" for pod in workers)
    ready = sum(has_condition(pod, "Ready") for pod in workers)
    is_ready = head is not None and has_condition(head, "Ready") and ready >= sizes["desired"]
    counts = {"availableWorkerReplicas": running, "readyWorkerReplicas": ready}
    return {
        **{name: count for name, count in counts.items() if count},
        **{f"{name}WorkerReplicas": size for name, size in sizes.items()},
        **_sum_resources(cluster),
        **_keep_state(cluster, now, is_ready=is_ready),
        "conditions": [
            *_list_conditions(cluster, head, now, is_ready=is_ready),
            *_list_failures(cluster, now, trouble),
        ],
        "endpoints": {name: str(port) for name, port in find_ports(cluster).items()},
        "head": _describe_head(cluster, head),
        "lastUpdateTime": format_time(now),
        "observedGeneration": cluster["metadata"].get("generation", 1),
    }


def count_replicas(group: Json) -> int:
    """Return the number of workers of a group: its replicas, limited to its minimum and maximum."""
    least = int(group.get("minReplicas") or 0)
    wanted = max(least, int(group.get("replicas", least) or 0))
    return min(wanted, int(group.get("maxReplicas", wanted)))


def _count_sizes(cluster: Json) -> dict[str, int]:
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    wanted = [count_replicas(group) for group in groups]
    most = [int(group.get("maxReplicas", count_replicas(group))) for group in groups]
    least = [int(group.get("minReplicas") or 0) for group in groups]
    return {"desired": sum(wanted), "min": sum(least), "max": sum(most)}


def _sum_resources(cluster: Json) -> Json:
    specs = [cluster["spec"]["headGroupSpec"]["template"]["spec"]]
    for group in cluster["spec"].get("workerGroupSpecs") or ():
        specs += [group["template"]["spec"]] * count_replicas(group)
    memory = sum((sum_requests(spec, "memory") for spec in specs), Decimal())
    return {
        "desiredCPU": format_count(sum((sum_requests(spec, "cpu") for spec in specs), Decimal())),
        "desiredGPU": format_count(sum_devices(specs, "gpu")),
        "desiredMemory": format_bytes(memory),
        "desiredTPU": format_count(sum_devices(specs, "tpu")),
    }


def _keep_state(cluster: Json, now: datetime, *, is_ready: bool) -> Json:
    before = get_status(cluster)
    if before.get("state"):
        return {"state": before["state"], "stateTransitionTimes": before["stateTransitionTimes"]}
    return (
        {"state": "ready", "stateTransitionTimes": {"ready": format_time(now)}} if is_ready else {}
    )


def _describe_head(cluster: Json, head: Json | None) -> Json:
    service = {"serviceName": name_service(get_name(cluster))}
    if head is None:
        return service
    address = get_status(head).get("podIP")
    addresses = {"podIP": address, "serviceIP": address} if address else {}
    return {"podName": get_name(head), **addresses, **service}


def _list_conditions(
    cluster: Json, head: Json | None, now: datetime, *, is_ready: bool
) -> list[Json]:
    if is_ready or has_condition(cluster, "RayClusterProvisioned"):
        provisioned = ("True", "AllPodRunningAndReadyFirstTime")
        words = "All Ray Pods are ready for the first time"
    else:
        provisioned = ("False", "RayClusterPodsProvisioning")
        words = "RayCluster Pods are being provisioned for first time"
    found = [
        ("HeadPodReady", *describe_head(head)),
        ("RayClusterProvisioned", *provisioned, words),
        ("RayClusterSuspended", "False", "RayClusterSuspended", ""),
        ("RayClusterSuspending", "False", "RayClusterSuspending", ""),
    ]
    return [_build_condition(cluster, now, *condition) for condition in found]


def _list_failures(cluster: Json, now: datetime, trouble: Trouble | None) -> list[Json]:
    """Return the condition for a pod that could not be created.

    The condition disappears when a retry succeeds.
    """
    if trouble is None:
        return []
    text = f"{trouble.reason}\n{trouble.message}"
    return [_build_condition(cluster, now, "ReplicaFailure", "True", trouble.reason, text)]


def _build_condition(
    cluster: Json, now: datetime, kind: str, status: str, reason: str, message: str
) -> Json:
    before = find_condition(cluster, kind)
    is_same = before is not None and before["status"] == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"]
        if before is not None and is_same
        else format_time(now),
    }


def describe_head(head: Json | None) -> tuple[str, str, str]:
    """Return the status, reason, and message of the condition HeadPodReady."""
    if head is None:
        return "False", "HeadPodNotFound", "Head Pod not found"
    ready = find_condition(head, "Ready")
    if ready is None:
        return "False", "Unknown", ""
    if ready["status"] == "True":
        return "True", "HeadPodRunningAndReady", ""
    reason, message = ready.get("reason", "Unknown"), ready.get("message", "")
    if reason != "ContainersNotReady":
        return "False", reason, message
    for container in get_status(head).get("containerStatuses") or ():
        for state in container["state"].values():
            if not container.get("ready") and state.get("reason"):
                text = f"{message}; {container['name']}: {state.get('message', '')}"
                return "False", state["reason"], text
    return "False", reason, message
