"""The Job that runs a command where a pipeline's volumes are. Pure: a manifest from an order.

Its pod is the head's as the operator rendered it, so that user, volumes, variables and code are
the run's own; but it starts no Ray, gets no rights and no folder of a node, and is of no attempt.
An operator finds pods of attempts by labels that it therefore must not have.
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
# Fields of the head's pod that say as which user, with what rights and where it runs.
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
# The caller may have rights that the pipeline's author has not: no more than to read and write
# files.
_SECURITY_KEPT = (
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "seccompProfile",
    "seLinuxOptions",
)
# Parts of the operator's metadata for pods of commands that are known here.
_METADATA_KEPT = {"labels": (NETWORK_LABEL, *MESH_KEYS), "annotations": MESH_KEYS}
_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_OF_NODES = "hostPath"
_CODE_CONTAINER = "strandline-code"
_RESOURCES = {
    "requests": {"cpu": "250m", "memory": "512Mi"},
    "limits": {"memory": "2Gi"},
}
# The caller is gone for good by then.
KEEP_SECONDS, LONGEST_SECONDS = 300, 24 * 3600
_LABEL_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 40
_ATTACHED = "/dev/shm"  # noqa: S108 - Ray's object store, which is not started


@dataclass(frozen=True, slots=True)
class JobOrder:
    """One command to be run.

    Attributes:
        title: a short name of the command, such as `verify`.
        words: what the container runs.
        pipeline: the owner of the volumes that it gets.
        head: the spec of the pod that had them.
        placement: where it runs, and what it may write.
        width: letters in a line of its answer; None: any number.
        metadata: labels and annotations that the operator wants on its pod.
    """

    title: str
    words: Sequence[str]
    pipeline: ClusterPipeline
    head: Mapping[str, Any]
    placement: JobPlacement
    width: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: OUT_OF_MESHES)


def separate_errors(words: Sequence[str]) -> list[str]:
    """Return a command that keeps its stderr in the pod's status: a log has both streams in one."""
    return ["/bin/sh", "-c", 'exec "$@" 2>/dev/termination-log', words[0], *words]


def render_job(order: JobOrder) -> dict[str, Any]:
    """Render the Job; the API server completes its name."""
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
            "backoffLimit": 0,
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": {"metadata": _render_metadata(order, labels), "spec": _render_pod(order)},
        },
    }


def _render_metadata(order: JobOrder, labels: dict[str, str]) -> dict[str, Any]:
    """Return labels and annotations of the pod, with those by which a policy finds it."""
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
        if each["name"] == _CODE_CONTAINER
    ]
    container = _render_container(order, ray)
    mounted = {mount["name"] for each in (container, *fetching) for mount in each["volumeMounts"]}
    pod: dict[str, Any] = {name: head[name] for name in _KEPT if name in head}
    pod |= {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "affinity": _pin(order.placement.node) or _keep_affinity(head),
        "initContainers": fetching,
        "containers": [container],
        "volumes": [each for each in volumes if each["name"] in mounted],
    }
    return {name: value for name, value in pod.items() if value not in ({}, [])}


def _render_container(order: JobOrder, ray: Mapping[str, Any]) -> dict[str, Any]:
    own = _drop_drivers(order, ray)
    env = [*own["env"]]
    if order.width is not None:
        env = [each for each in env if each["name"] != "COLUMNS"]
        env.append({"name": "COLUMNS", "value": str(order.width)})
    return {
        "name": CONTAINER,
        **{name: ray[name] for name in _CONTAINER_KEPT if name in ray},
        "securityContext": _confine(ray),
        # Kubernetes would put variables in the place of `$(…)`.
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
    """Return the resources, with as much CPU as the head was let in with.

    A quota may refuse a pod that names no limit of it, and few may read quotas.
    """
    cpu = ((ray.get("resources") or {}).get("limits") or {}).get("cpu")
    if cpu is None:
        return dict(_RESOURCES)
    requests, limits = _RESOURCES["requests"], {**_RESOURCES["limits"], "cpu": cpu}
    # A request above its limit is refused everywhere.
    least = min(requests["cpu"], str(cpu), key=parse_cpu)
    return {"requests": {**requests, "cpu": least}, "limits": limits}


def _drop_drivers(order: JobOrder, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container without what is the driver's own, and without what it can't mount."""
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
    """Return an affinity to one node: unlike `nodeName`, a scheduler looks whether it has room."""
    if not node:
        return {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _keep_affinity(head: Mapping[str, Any]) -> dict[str, Any]:
    affinity = (head.get("affinity") or {}).get("nodeAffinity")
    return {"nodeAffinity": affinity} if affinity else {}
