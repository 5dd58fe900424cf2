"""Finds nodes of a running attempt that are about to be removed, so the driver can move its data.

A pod's own termination signal may arrive late or never, but its node is marked earlier. This module
must not depend on how a driver is notified, or on the driver's reaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.outcome.disruptions import Disruption
from strandline_operator.decide.attempts.drains import find_firm_taker, find_hold
from strandline_operator.decide.evidence.disruptions import PodDisruption, find_taking
from strandline_operator.decide.evidence.rayjobs import TERMINAL
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Departure
from strandline_operator.render.order import Role

_RAY_NODES = frozenset({Role.HEAD.value, Role.WORKER.value})
_DELETION = "deletionTimestamp"
_OF_KARPENTER = frozenset(
    {
        Disruption.NODE_CONSOLIDATED,
        Disruption.NODE_DRIFTED,
        Disruption.NODE_EXPIRED,
        Disruption.NODE_DISRUPTED,
    }
)


def list_departures(scene: Scene) -> Iterator[Departure]:
    """Yield the pods that are about to terminate. Yield nothing unless the attempt is running."""
    head = next((pod for pod in scene.pods if is_head(pod) and pod.ip), None)
    # Only a running driver can move its data off a node.
    if head is None or not _is_running(scene):
        return
    for pod in scene.pods:
        departure = _find_departure(scene, pod) if _is_at_work(pod) else None
        if departure is not None:
            mark, seconds, why = departure
            yield Departure(
                attempt=scene.attempt.meta.uid,
                head=head.ip,
                pod=pod.meta.uid,
                mark=mark,
                node=pod.ip,
                seconds=round(max(0.0, seconds), 1),
                why=why,
                port=head.driver_port,
            )


def _is_running(scene: Scene) -> bool:
    """Return True if the driver is running and no stop was requested."""
    rayjob, status = scene.rayjob, scene.status
    if status.running_time is None or status.end_time is not None or status.outcome is not None:
        return False
    # Deleting a RayJob deletes all its pods, and the driver receives a signal itself.
    return rayjob is not None and not rayjob.meta.is_deleting and rayjob.deployment not in TERMINAL


def _is_at_work(pod: Pod) -> bool:
    return pod.phase == "Running" and bool(pod.ip) and role_of(pod) in _RAY_NODES


def _find_departure(scene: Scene, pod: Pod) -> tuple[str, float, str] | None:
    """Return the mark that announces a pod's end, the seconds left, and the reason, if any.

    A cordon alone announces nothing: the node may keep its pods for days, and a driver would leave
    the node idle. A drain marks each pod for deletion within a second.
    """
    # A blocked drain waits until the work is finished, so do not announce it to the driver.
    taker = None if find_hold(scene, pod) is not None else find_firm_taker(scene, pod)
    limit = None if taker is None else taker.seconds
    # A pod that is already terminating has its own deadline.
    if pod.meta.is_deleting or pod.disruption:
        gone_by = scene.now + pod.grace if pod.meta.gone_by is None else pod.meta.gone_by
        seconds = gone_by - scene.now
        # The node may be removed before the pod's grace period is over.
        seconds = seconds if limit is None else min(seconds, limit)
        mark = _DELETION if pod.meta.is_deleting else pod.disruption
        return mark, seconds, _describe(scene, pod, taker)
    if taker is None:
        return None
    # A mark without a deadline leads to a pod deletion, which grants the pod's full grace period.
    return taker.mark, pod.grace if limit is None else limit, _announce(taker)


def _describe(scene: Scene, pod: Pod, taker: PodDisruption | None) -> str:
    taking = taker or find_taking(pod, scene.marks.get(pod.meta.uid), scene.notices)
    return f"pod {pod.meta.name} is being deleted" if taking is None else _announce(taking)


def _announce(taking: PodDisruption) -> str:
    """Describe a disruption in progress, based on the sentence of its kind in the past tense."""
    # The sentences of these kinds do not contain "was", so return a separate sentence.
    if taking.kind in _OF_KARPENTER:
        return f"Karpenter is taking node {taking.node} away"
    return taking.kind.describe(taking.node, taking.what).replace(" was ", " is being ", 1)
