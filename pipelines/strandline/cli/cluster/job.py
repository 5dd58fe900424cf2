"""Renders the Job that runs a command on a pipeline's volumes.

The pod is a copy of the Ray head's pod, so user, volumes, variables, and code match the run's. The
pod does not start Ray, has no permissions and no host folders, and does not belong to an attempt.
The operator finds pods of attempts by labels, so the pod must not have these labels. This module
does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from strandline.cli.cluster.objects import ClusterPipeline
from strandline.cli.cluster.placement import JobPlacement
from strandline_api.names import (
    API_VERSION,
    GROUP,
    MANAGED_BY_LABEL,
    NETWORK_LABEL,
    PIPELINE,
    fit_name,
    format_label_value,
)
from strandline_api.notation.quantities import parse_cpu
from strandline_api.outcome.reader_token import DRIVERS_OWN
from strandline_api.spec.pod_paths import HEAD_CONTAINER, MESH_KEYS, OUT_OF_MESHES, OUTPUT, VOLUME

CONTAINER = "strandline"
COMMAND_LABEL = f"{GROUP}/command"
OWNER_LABEL = f"{GROUP}/command-of"
# Fields copied from the head's pod, about its user, permissions, and placement.
_KEPT = (
    "securityContext",
    "serviceAccountName",
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "runtimeClassName",
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
)
_CONTAINER_KEPT = ("image", "imagePullPolicy", "envFrom")
# Copied fields of the security context: enough to read and write files. Other fields could grant
# privileges that the caller has, but the pipeline's author lacks.
_SECURITY_KEPT = (
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "seccompProfile",
    "seLinuxOptions",
)
# Labels and annotations that are copied from the operator's metadata for pods of commands.
_METADATA_KEPT = {"labels": (NETWORK_LABEL, *MESH_KEYS), "annotations": MESH_KEYS}
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
# Volume type for folders of the node, which is never copied: the pod runs another user's image, and
# the caller's permissions must not give that image access to files of the node.
_OF_NODES = "hostPath"
_CODE_CONTAINER = "strandline-code"
_RESOURCES = {
    "requests": {"cpu": "250m", "memory": "512Mi"},
    "limits": {"memory": "2Gi"},
}
# Seconds before the Job is deleted or ended, long after the caller has stopped waiting.
KEEP_SECONDS, LONGEST_SECONDS = 300, 24 * 3600
# Matches `corpus-2` and `a`, but not `2-corpus`, `corpus-`, or `Corpus`.
_LABEL_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Names and label values have at most 63 characters. The remaining 23 characters are for the
# command's title and the suffix that the API server adds.
_LONGEST_NAME = 40
_ATTACHED = "/dev/shm"  # noqa: S108 - Ray's object store, which is not started


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A command to run in a Job.

    Attributes:
        title: short name of the command, such as `verify`.
        words: command line of the container.
        pipeline: owner of the mounted volumes.
        head: spec of the pod of the latest Ray head.
        placement: node of the Job, and write access.
        width: number of characters in an output line; None for unlimited lines.
        metadata: labels and annotations that the operator requires on the pod.
    """

    title: str
    words: Sequence[str]
    pipeline: ClusterPipeline
    head: Mapping[str, Any]
    placement: JobPlacement
    width: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: OUT_OF_MESHES)


def separate_errors(words: Sequence[str]) -> list[str]:
    """Return a command that writes stderr to the pod's status, because a log mixes both streams."""
    # The shell takes the first word after the script as `$0`, so the program's name appears twice.
    # The kubelet copies `/dev/termination-log` to the status of the container.
    return ["/bin/sh", "-c", 'exec "$@" 2>/dev/termination-log', words[0], *words]


def render_job(order: JobOrder) -> dict[str, Any]:
    """Render the Job. The API server adds a suffix to the Job's name."""
    pipeline = order.pipeline
    owner = {
        "apiVersion": API_VERSION,
        "kind": PIPELINE.name,
        "name": pipeline.name,
        "uid": pipeline.uid,
    }
    short = fit_name(pipeline.name, _LONGEST_NAME, _LABEL_NAME)
    labels = {
        MANAGED_BY_LABEL: "kubectl-strandline",
        COMMAND_LABEL: order.title,
        OWNER_LABEL: format_label_value(pipeline.name),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "generateName": f"{short}-{order.title}-",
            "namespace": pipeline.namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            # Do not retry: a second pod would repeat output that the caller has already received.
            "backoffLimit": 0,
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": {"metadata": _render_metadata(order, labels), "spec": _render_pod(order)},
        },
    }


def _render_metadata(order: JobOrder, labels: dict[str, str]) -> dict[str, Any]:
    """Return labels and annotations of the pod. Network policies may select some of the labels."""
    wanted = {
        part: {name: order.metadata[part][name] for name in kept if name in order.metadata[part]}
        for part, kept in _METADATA_KEPT.items()
        if part in order.metadata
    }
    return wanted | {"labels": wanted.get("labels", {}) | labels}


def _render_pod(order: JobOrder) -> dict[str, Any]:
    head = order.head
    ray = next(each for each in head["containers"] if each["name"] == HEAD_CONTAINER)
    volumes = [each for each in head.get("volumes") or () if _OF_NODES not in each]
    order = replace(order, head={**head, "volumes": volumes})
    fetching = [
        {**_drop_drivers(order, each), "securityContext": _confine(each)}
        for each in head.get("initContainers") or ()
        # Keep only the init container that fetches the run's code; the command needs no other.
        if each["name"] == _CODE_CONTAINER
    ]
    container = _render_container(order, ray)
    mounted = {mount["name"] for each in (container, *fetching) for mount in each["volumeMounts"]}
    pod: dict[str, Any] = {name: head[name] for name in _KEPT if name in head}
    pod |= {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        # A pin to the claim's node replaces the head's own affinity, which could contradict it.
        "affinity": _pin(order.placement.node) or _keep_affinity(head),
        "initContainers": fetching,
        "containers": [container],
        "volumes": [each for each in volumes if each["name"] in mounted],
    }
    return {name: value for name, value in pod.items() if value not in ({}, [])}


def _render_container(order: JobOrder, ray: Mapping[str, Any]) -> dict[str, Any]:
    own = _drop_drivers(order, ray)
    env = [*own["env"]]
    # A pod has no terminal, so pass the width of the caller's terminal.
    if order.width is not None:
        env = [each for each in env if each["name"] != "COLUMNS"]
        env.append({"name": "COLUMNS", "value": str(order.width)})
    return {
        "name": CONTAINER,
        **{name: ray[name] for name in _CONTAINER_KEPT if name in ray},
        "securityContext": _confine(ray),
        # Escape `$(…)`, which Kubernetes would otherwise replace with variables.
        "command": [word.replace("$(", "$$(") for word in order.words],
        "env": env,
        "resources": _bound_cpu(ray),
        "volumeMounts": [
            _mount(mount, order.placement)
            for mount in own["volumeMounts"]
            if mount["mountPath"] != _ATTACHED
        ],
    }


def _bound_cpu(ray: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of the command's container, with the CPU limit of the head.

    A limit is needed because a quota may reject pods without one, and few users may read quotas.
    """
    cpu = ((ray.get("resources") or {}).get("limits") or {}).get("cpu")
    if cpu is None:
        return dict(_RESOURCES)
    requests, limits = _RESOURCES["requests"], {**_RESOURCES["limits"], "cpu": cpu}
    # The API server rejects a request above its limit.
    least = min(requests["cpu"], str(cpu), key=parse_cpu)
    return {"requests": {**requests, "cpu": least}, "limits": limits}


def _drop_drivers(order: JobOrder, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container without the driver's own variables and mounts of omitted volumes."""
    env = [each for each in container.get("env") or () if each["name"] not in DRIVERS_OWN]
    known = {volume["name"] for volume in order.head["volumes"]}
    mounts = [each for each in container.get("volumeMounts") or () if each["name"] in known]
    return {**container, "env": env, "volumeMounts": mounts}


def _confine(container: Mapping[str, Any]) -> dict[str, Any]:
    given = container.get("securityContext") or {}
    return {name: given[name] for name in _SECURITY_KEPT if name in given} | _CONFINED


def _mount(mount: Mapping[str, Any], placement: JobPlacement) -> dict[str, Any]:
    is_writable = {VOLUME: placement.writes_ledger, OUTPUT: placement.writes_output}
    path = mount["mountPath"]
    return {**mount, "readOnly": not is_writable[path]} if path in is_writable else dict(mount)


def _pin(node: str) -> dict[str, Any]:
    """Return an affinity to one node, or an empty dictionary if no node is given.

    With an affinity, unlike with `nodeName`, the scheduler checks for free resources.
    """
    if not node:
        return {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _keep_affinity(head: Mapping[str, Any]) -> dict[str, Any]:
    affinity = (head.get("affinity") or {}).get("nodeAffinity")
    return {"nodeAffinity": affinity} if affinity else {}
