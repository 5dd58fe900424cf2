"""Finds node drains that wait for a pod of an attempt, to report why they wait.

This module must not depend on how an attempt blocks a drain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.status.reasons import Reason
from strandline_operator.decide.evidence.disruptions import PodDisruption, find_mark, is_unexplained
from strandline_operator.decide.evidence.taker_marks import REVOCABLE
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.objects import Pod
from strandline_operator.render.disruptions import (
    AUTOSCALER_WAIT,
    KARPENTER_WAIT,
    WAIT_ANNOTATIONS,
    has_budget,
    list_waited,
)

_AUTOSCALER = "ToBeDeletedByClusterAutoscaler"


class NodeDrain(NamedTuple):
    """A node drain in progress.

    Attributes:
        words: description of the drain, to follow the node's name in a sentence.
        annotation: pod annotation that blocks the drain; empty if the drainer ignores annotations.
    """

    words: str
    annotation: str = ""

    @property
    def heeds_annotations(self) -> bool:
        """Return True if the drainer respects pod annotations that block a drain."""
        return bool(self.annotation)


class DrainHold(NamedTuple):
    """A drain that waits for a pod, and what blocks it: a disruption budget or annotations."""

    drain: NodeDrain
    holder: str


def read_drain(marks: NodeMarks) -> NodeDrain | None:
    """Return the drain that a node's marks indicate, or None if no mark indicates a drain."""
    taints = {key for key, _ in marks.taints}
    if is_unexplained(marks):
        return NodeDrain("is being taken down by Karpenter", KARPENTER_WAIT)
    # When a user deletes a node, Karpenter drains it too, and respects the annotations of its pods.
    if marks.is_deleting:
        return NodeDrain("is being deleted", KARPENTER_WAIT)
    if _AUTOSCALER in taints:
        return NodeDrain("is being taken down by the cluster autoscaler", AUTOSCALER_WAIT)
    return NodeDrain("is cordoned") if marks.is_cordoned else None


def find_firm_taker(scene: Scene, pod: Pod) -> PodDisruption | None:
    """Return the disruption of a pod's node if the disruption can no longer be revoked."""
    marks = scene.marks.get(pod.meta.uid)
    # Ignore revocable taints, which only announce the removal, until the node is being deleted.
    if marks is not None and not marks.is_deleting:
        firm = tuple(taint for taint in marks.taints if taint[0] not in REVOCABLE)
        marks = replace(marks, taints=firm)
    return find_mark(pod, marks, scene.notices)


def find_hold(scene: Scene, pod: Pod) -> DrainHold | None:
    """Return the drain that waits for a working pod, or None if no drain waits.

    The pod stays while the drain is blocked, so its driver must not be notified.
    """
    marks = scene.marks.get(pod.meta.uid)
    drain = None if marks is None else read_drain(marks)
    # Only a working pod can block a drain.
    if drain is None or not _is_at_work(pod):
        return None
    taker = find_firm_taker(scene, pod)
    # A cloud removes the node when the notice period ends, even if a drain is blocked.
    if taker is not None and taker.seconds is not None:
        return None
    # `kubectl drain` respects only disruption budgets.
    if _is_budgeted(scene.spec.ray, pod):
        return DrainHold(drain, "PodDisruptionBudget")
    name = drain.annotation
    is_annotated = bool(name) and pod.meta.annotations.get(name) == WAIT_ANNOTATIONS[name]
    return DrainHold(drain, "annotations") if is_annotated else None


def find_held_drain(scene: Scene) -> Block | None:
    """Report a node drain that is blocked while the attempt runs."""
    for pod in sorted(scene.pods, key=lambda pod: not is_head(pod)):
        hold = find_hold(scene, pod)
        if hold is not None:
            name = f"{role_of(pod)} pod {pod.meta.name}"
            detail = f"node {pod.node} {hold.drain.words} and waits for the {hold.holder} of {name}"
            return Block(Reason.DRAIN_HELD_BACK, detail)
    return None


def _is_at_work(pod: Pod) -> bool:
    is_leaving = pod.meta.is_deleting or bool(pod.disruption)
    return pod.phase == "Running" and bool(pod.node) and not is_leaving


def _is_budgeted(ray: RayCluster, pod: Pod) -> bool:
    return has_budget(ray) and role_of(pod) in list_waited(ray)
