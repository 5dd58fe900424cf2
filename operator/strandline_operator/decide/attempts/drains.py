"""Drains that an attempt holds up: events report what a drain waits for.

This room must not know how an attempt has others wait.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.status.reasons import Reason
from strandline_operator.decide.disruptions import is_unexplained
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.nodes import NodeMarks
from strandline_operator.model.objects import Pod
from strandline_operator.render.disruptions import WAIT_ANNOTATIONS, has_budget, list_waited

_AUTOSCALER = "ToBeDeletedByClusterAutoscaler"


class NodeDrain(NamedTuple):
    """A node that is being drained.

    Attributes:
        words: how that shows, after the node's name.
        heeds_annotations: the drain lets pods stay if their annotations ask for that.
    """

    words: str
    heeds_annotations: bool = False


def read_drain(marks: NodeMarks) -> NodeDrain | None:
    """Return what a node's marks say of a drain; None where there is none."""
    taints = {key for key, _ in marks.taints}
    # Karpenter drains a node that is deleted by hand, and each pod as its annotations let it.
    if is_unexplained(marks):
        return NodeDrain("is being taken down by Karpenter", heeds_annotations=True)
    if marks.is_deleting:
        return NodeDrain("is being deleted", heeds_annotations=True)
    if _AUTOSCALER in taints:
        return NodeDrain("is being taken down by the cluster autoscaler", heeds_annotations=True)
    return NodeDrain("is cordoned") if marks.is_cordoned else None


def find_held_drain(scene: Scene) -> Block | None:
    """Return a node that is being drained and can't be while the attempt goes on."""
    for pod in sorted(scene.pods, key=lambda pod: not is_head(pod)):
        marks = scene.marks.get(pod.meta.uid)
        drain = None if marks is None else read_drain(marks)
        # A pod that does no work goes with a drain by itself.
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
