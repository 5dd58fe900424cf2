"""Derives the actions for a RayCluster: head Service, head, workers, and status.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kuberay_standin.objects import (
    GROUP_LABEL,
    INDEX_LABEL,
    NO_HEAD_RESTART,
    NODE_LABEL,
    Json,
    get_name,
    get_status,
    has_condition,
    is_leaving,
)
from kuberay_standin.rayclusters.pods import make_head, make_service, make_worker
from kuberay_standin.rayclusters.status import count_replicas, describe_cluster
from kuberay_standin.rayclusters.tokens import PARTS, make_secret, wants_token
from kuberay_standin.scene import Action, Draw, Make, PutStatus, Remove, Scene


def step_cluster(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
    """Return the actions for a RayJob's RayCluster, or none if the RayCluster is missing."""
    cluster = scene.cluster
    if cluster is None or is_leaving(cluster):
        return []
    trouble = scene.trouble
    actions = list(_step_pods(cluster, scene.pods)) if trouble is None or trouble.is_due else []
    if scene.service is None:
        actions.insert(0, Make(make_service(cluster)))
    if wants_token(cluster) and scene.secret is None:
        token = "".join(draw() for _ in range(PARTS))
        actions.insert(0, Make(make_secret(cluster, token)))
    status = describe_cluster(cluster, scene.pods, now, trouble)
    is_new = not get_status(cluster) and not scene.pods and trouble is None
    if not is_new and _differs(status, get_status(cluster)):
        actions.append(PutStatus("RayCluster", get_name(cluster), status))
    return actions


def _step_pods(cluster: Json, pods: Sequence[Json]) -> Iterable[Action]:
    for pod in pods:
        if is_spent(pod) and not is_leaving(pod):
            yield Remove("Pod", get_name(pod))
    if not any(pod["metadata"]["labels"][NODE_LABEL] == "head" for pod in pods):
        if not may_make_head(cluster):
            return  # create no workers either, because they could not join a head
        yield Make(make_head(cluster))
    for group in cluster["spec"].get("workerGroupSpecs") or ():
        yield from _step_group(cluster, group, pods)


def _step_group(cluster: Json, group: Json, pods: Sequence[Json]) -> Iterable[Action]:
    """Create the missing workers of a group. A terminating worker counts until it is gone."""
    labels = [pod["metadata"]["labels"] for pod in pods]
    mine = [label for label in labels if label[GROUP_LABEL] == group["groupName"]]
    taken = {int(pod[INDEX_LABEL]) for pod in mine}
    wanted = count_replicas(group)
    free = [index for index in range(wanted) if index not in taken]
    for index in free[: max(0, wanted - len(mine))]:
        yield Make(make_worker(cluster, group, index))


def may_make_head(cluster: Json) -> bool:
    """Return whether a missing head may be created: always at first, later only if allowed."""
    annotations = cluster["metadata"].get("annotations") or {}
    return annotations.get(NO_HEAD_RESTART) != "true" or not has_condition(
        cluster, "RayClusterProvisioned"
    )


def is_spent(pod: Json) -> bool:
    """Return whether a pod's Ray has ended and its kubelet will not restart it."""
    if pod["spec"].get("restartPolicy") != "Never":
        return False
    name = pod["spec"]["containers"][0]["name"]
    states = get_status(pod).get("containerStatuses") or ()
    ended = any(state["name"] == name and "terminated" in state["state"] for state in states)
    return ended or get_status(pod).get("phase") in {"Failed", "Succeeded"}


def _differs(status: Json, before: Json) -> bool:
    ignored = {"lastUpdateTime": None}
    return {**status, **ignored} != {**before, **ignored}
