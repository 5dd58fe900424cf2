"""An attempt's RayJob, and the ConfigMap with the pipeline for its driver.

The shape is the one that ran a driver exactly once in every recording of a real KubeRay, whatever
was lost: no retries of its own, no head that comes back, nothing that waits without end.
"""

from __future__ import annotations

import json
from typing import Any

from strandline_api.kinds import API_VERSION, ATTEMPT
from strandline_api.spec_cluster import RayNode, WorkerGroup
from strandline_operator.model.plan import Manifest
from strandline_operator.render.order import Order
from strandline_operator.render.pods import (
    CONFIG,
    EXTRA_GRACE_SECONDS,
    MANIFEST,
    OUTPUT,
    VOLUME,
    render_head,
    render_submitter,
    render_worker,
)

KEEP_SECONDS = 60
# KubeRay's own deadlines only catch what ours have missed.
SLACK_SECONDS = 120
LONGEST_SECONDS = 30 * 86_400
NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


def render_config(order: Order) -> Manifest:
    """The ConfigMap with the pipeline as its driver reads it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(order, order.name),
        "data": {MANIFEST: json.dumps(_localise(order), indent=1)},
        "immutable": True,
    }


def render_rayjob(order: Order) -> Manifest:
    """The RayJob."""
    metadata = _metadata(order, order.rayjob)
    metadata["labels"] = metadata["labels"] | _label_queue(order)
    metadata["annotations"] = {NO_HEAD_RESTART: "true"}
    deadlines, limits = order.spec.deadlines, order.limits
    pre_running = deadlines.pre_running_seconds or limits.pre_running
    spec: dict[str, Any] = {
        "entrypoint": _spell_entrypoint(order),
        "submissionMode": order.spec.ray.submission_mode,
        "backoffLimit": 0,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        "preRunningDeadlineSeconds": int(pre_running) + SLACK_SECONDS,
        "activeDeadlineSeconds": _bound_activity(order, pre_running),
        "rayClusterSpec": _render_cluster(order),
    }
    if order.spec.ray.submission_mode == "K8sJobMode":
        spec["submitterConfig"] = {"backoffLimit": 0}
        spec["submitterPodTemplate"] = render_submitter(order)
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def _metadata(order: Order, name: str) -> dict[str, Any]:
    owner = {
        "apiVersion": API_VERSION,
        "kind": ATTEMPT.name,
        "name": order.name,
        "uid": order.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": order.namespace,
        "labels": order.labels,
        "ownerReferences": [owner],
    }


def _label_queue(order: Order) -> dict[str, str]:
    """What Kueue reads: from the spec, or else the same labels of the pipeline itself."""
    ray, metadata = order.spec.ray, order.manifest.get("metadata")
    given = metadata.get("labels") if isinstance(metadata, dict) else None
    own = given if isinstance(given, dict) else {}
    wanted = {
        QUEUE_LABEL: ray.queue_name or own.get(QUEUE_LABEL),
        QUEUE_PRIORITY_LABEL: ray.queue_priority_class or own.get(QUEUE_PRIORITY_LABEL),
    }
    return {name: value for name, value in wanted.items() if value}


def _spell_entrypoint(order: Order) -> str:
    words = [
        "strandline run",
        f"{CONFIG}/{MANIFEST}",
        f"--volume {VOLUME}",
        "--address auto",
        "--no-supervise",
        f"--serve {order.limits.driver_port}",
    ]
    if order.after:
        words.append(f"--after {order.after}")
    return " ".join(words)


def _bound_activity(order: Order, pre_running: float) -> int:
    """Seconds after which KubeRay ends the RayJob; the time before the driver runs counts too."""
    longest = order.spec.deadlines.attempt_seconds
    if longest is None:
        return LONGEST_SECONDS
    grace = order.spec.checkpoint.grace_period_seconds
    return int(pre_running + longest + grace) + EXTRA_GRACE_SECONDS + SLACK_SECONDS


def _render_cluster(order: Order) -> dict[str, Any]:
    ray = order.spec.ray
    cluster: dict[str, Any] = {
        "headGroupSpec": {
            "rayStartParams": _start_params(ray.head) | {"dashboard-host": "0.0.0.0"},  # noqa: S104
            "template": render_head(order),
        },
        "workerGroupSpecs": [_render_group(order, group) for group in ray.worker_groups],
    }
    version = ray.version or order.limits.ray_version
    return {"rayVersion": version, **cluster} if version else cluster


def _render_group(order: Order, group: WorkerGroup) -> dict[str, Any]:
    most = group.min_replicas if group.max_replicas is None else group.max_replicas
    return {
        "groupName": group.name,
        "replicas": group.min_replicas,
        "minReplicas": group.min_replicas,
        "maxReplicas": most,
        "rayStartParams": _start_params(group),
        "template": render_worker(order, group),
    }


def _start_params(node: RayNode) -> dict[str, str]:
    return dict(node.ray_start_params)


def _localise(order: Order) -> dict[str, Any]:
    """The pipeline, with the place where pods find the output's claim."""
    document = json.loads(json.dumps(order.manifest))
    document["metadata"] = {"name": order.pipeline, "namespace": order.namespace}
    document.pop("status", None)
    if order.spec.storage.output.claim_name is not None:
        place = f"{OUTPUT}/{order.namespace}/{order.pipeline}"
        document["spec"]["storage"]["output"] = {"url": place}
    return dict(document)
