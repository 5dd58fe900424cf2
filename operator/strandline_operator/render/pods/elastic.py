"""Autoscales a Ray cluster: adds KubeRay's autoscaler to the head pod, with its permissions.

The autoscaler calls the API server, so only its container gets a token; other containers of the pod
get none. See docs/design/attempts.md.
"""

from __future__ import annotations

import json
import math
from typing import Any

from strandline_api.spec.pod_paths import AUTOSCALER_SCRATCH_VOLUME, AUTOSCALER_TOKEN_VOLUME
from strandline_api.spec.ray_cluster import RayNode, WorkerGroup
from strandline_operator.render.order import Order

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - standard path for clients
TOKEN_SECONDS = 3600
IDLE_SECONDS = 120
FULL_SIZE = "STRANDLINE_FULL_SIZE"
# Maximum number of workers, because the autoscaler processes a list with an entry per requested
# worker.
MOST_ASKED = 1000
_RESOURCES = {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}


def is_elastic(order: Order, *, has_one_size: bool) -> bool:
    """Return True if the cluster of an attempt may grow.

    Args:
        has_one_size: whether a queue admits the cluster with a fixed size.
    """
    groups = order.spec.ray.worker_groups
    return not has_one_size and any(_most(group) > group.min_replicas for group in groups)


def render_autoscaler(order: Order, confine: dict[str, Any]) -> dict[str, Any]:
    """Render the fields with which KubeRay adds an autoscaler to the head pod."""
    mounts = [
        {"name": AUTOSCALER_TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": True},
        {"name": AUTOSCALER_SCRATCH_VOLUME, "mountPath": "/tmp"},  # noqa: S108 - the container's own volume
    ]
    return {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": IDLE_SECONDS,
            "resources": order.cpu_rules.fit(_RESOURCES),
            "securityContext": confine,
            "volumeMounts": mounts,
        },
    }


def make_elastic(order: Order, head: dict[str, Any]) -> dict[str, Any]:
    """Add the autoscaler's mounts, and the cluster's full size for the driver, to the head."""
    spec = head["spec"]
    ray, *others = spec["containers"]
    size = {"name": FULL_SIZE, "value": render_full_size(order)}
    volumes = [
        *spec["volumes"],
        _render_token(),
        {"name": AUTOSCALER_SCRATCH_VOLUME, "emptyDir": {}},
    ]
    containers = [{**ray, "env": [*ray.get("env", ()), size]}, *others]
    return {**head, "spec": {**spec, "containers": containers, "volumes": volumes}}


def render_full_size(order: Order) -> str:
    """Return the resources of all nodes of the cluster at its maximum size, as JSON."""
    ray = order.spec.ray
    nodes = [(1, _offer(ray.head)), *((_most(it), _offer(it)) for it in ray.worker_groups)]
    requests = [[min(count, MOST_ASKED), offer] for count, offer in nodes if count and offer]
    return json.dumps(requests)


def _offer(node: RayNode) -> dict[str, int]:
    """Return a node's resources for Ray, rounded down so that requests fit."""
    facts = node.ray_start_params.get("num-cpus", "")
    cpus = int(facts) if facts.isdecimal() else math.floor(node.resources.cpu)
    amounts = {"CPU": cpus, "GPU": node.resources.gpu}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _most(group: WorkerGroup) -> int:
    return group.min_replicas if group.max_replicas is None else group.max_replicas


def _render_token() -> dict[str, Any]:
    field = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {"downwardAPI": {"items": [field]}},
    ]
    return {"name": AUTOSCALER_TOKEN_VOLUME, "projected": {"sources": sources}}
