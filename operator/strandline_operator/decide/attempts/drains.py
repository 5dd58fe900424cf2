"""Drains that an attempt holds up: whoever drains a node is told what it waits for.

This room must not know how an attempt has others wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import Pod
from strandline_operator.render.disruptions import WAIT_ANNOTATIONS, has_budget, list_waited

# A head, and some workers: who drains one node after another meets each of them.
_MOST_NODES = 4


def list_held_nodes(ray: RayCluster, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return nodes whose drain would be held up by one of these pods, a head's first."""
    held = sorted(
        (pod for pod in pods if _is_budgeted(ray, pod) or _is_annotated(pod)),
        key=lambda pod: (not is_head(pod), pod.meta.name),
    )
    return tuple(dict.fromkeys(pod.node for pod in held if _is_at_work(pod)))[:_MOST_NODES]


def find_held_drain(scene: Scene) -> Block | None:
    """Return a node that is being drained and can't be while the attempt goes on."""
    for pod in sorted(scene.pods, key=lambda pod: not is_head(pod)):
        drain = scene.drains.get(pod.node)
        if drain is None or not _is_at_work(pod):
            continue
        # `kubectl drain` heeds a budget alone.
        is_held = _is_budgeted(scene.spec.ray, pod)
        by = "PodDisruptionBudget"
        if not is_held and drain.heeds_annotations:
            is_held, by = _is_annotated(pod), "annotations"
        if is_held:
            name = f"{role_of(pod)} pod {pod.meta.name}"
            detail = f"node {pod.node} {drain.words}, and {by} of the {name} keep it"
            return Block(Reason.DRAIN_HELD_BACK, detail)
    return None


def _is_at_work(pod: Pod) -> bool:
    is_leaving = pod.meta.is_deleting or bool(pod.disruption)
    return pod.phase == "Running" and bool(pod.node) and not is_leaving


def _is_budgeted(ray: RayCluster, pod: Pod) -> bool:
    return has_budget(ray) and role_of(pod) in list_waited(ray)


def _is_annotated(pod: Pod) -> bool:
    return any(pod.meta.annotations.get(name) == value for name, value in WAIT_ANNOTATIONS.items())
