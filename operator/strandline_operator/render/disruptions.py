"""Makes drains and autoscalers wait for pods, with annotations and an optional budget.

Karpenter and the cluster autoscaler respect annotations of a pod. A drain through the eviction API,
such as `kubectl drain`, respects only disruption budgets. This module must not depend on the state
of nodes.
"""

from __future__ import annotations

from typing import Any

from strandline_api.names import ATTEMPT_LABEL, PIPELINE_UID_LABEL, ROLE_LABEL
from strandline_api.spec.policy import VoluntaryDisruptions
from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.model.plan import Manifest
from strandline_operator.render.order import Order, Role

# Pod annotations that Karpenter and the cluster autoscaler respect.
KARPENTER_WAIT = "karpenter.sh/do-not-disrupt"
AUTOSCALER_WAIT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
WAIT_ANNOTATIONS = {KARPENTER_WAIT: "true", AUTOSCALER_WAIT: "false"}


def annotate(ray: RayCluster, role: str) -> dict[str, str]:
    """Return the annotations that protect a pod with this role; empty if it is not protected."""
    return dict(WAIT_ANNOTATIONS) if role in list_waited(ray) else {}


def list_waited(ray: RayCluster) -> tuple[str, ...]:
    """Return the roles of pods for which drains have to wait."""
    disruptions = ray.voluntary_disruptions or VoluntaryDisruptions()
    choices = {Role.HEAD: disruptions.head, Role.WORKER: disruptions.workers}
    # KubeRay fails a RayJob if its submitter is evicted, so protect the submitter like the head.
    if ray.submission_mode == "K8sJobMode":
        choices[Role.SUBMITTER] = disruptions.head
    return tuple(role.value for role, choice in choices.items() if choice == "Wait")


def has_budget(ray: RayCluster) -> bool:
    """Return True if the pipeline requests a budget that blocks evictions."""
    disruptions = ray.voluntary_disruptions
    return disruptions is not None and disruptions.pod_disruption_budget and bool(list_waited(ray))


def render_budget(order: Order, metadata: dict[str, Any]) -> Manifest | None:
    """Render an attempt's PodDisruptionBudget, or None if the pipeline requests none."""
    ray = order.spec.ray
    if not has_budget(ray):
        return None
    roles = list_waited(ray)
    # Set an absolute number of pods, because a RayCluster has no scale subresource.
    most = [group.max_replicas or group.min_replicas for group in ray.worker_groups]
    workers = sum(most) if Role.WORKER in roles else 0
    own = {name: order.labels[name] for name in (PIPELINE_UID_LABEL, ATTEMPT_LABEL)}
    expression = {"key": ROLE_LABEL, "operator": "In", "values": list(roles)}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {
            "minAvailable": workers + len(set(roles) - {Role.WORKER}),
            "selector": {"matchLabels": own, "matchExpressions": [expression]},
            # A pod that is not ready has no work to lose, so allow its eviction.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
