"""Explains the end of an attempt by what happened to the head pod, if no better evidence exists."""

from __future__ import annotations

from strandline_api.objects.attempt import EvidenceRecord
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.attempts.losses import BY_FORCE, is_of, list_losses, may_explain
from strandline_operator.decide.evidence.pods import blame_taking
from strandline_operator.decide.evidence.rayjobs import is_lost
from strandline_operator.decide.scene import Scene, find_lost_node, is_head
from strandline_operator.render.order import Role

# Causes that do not explain an end, unlike a lost node.
_VAGUE = frozenset({Cause.UNKNOWN, Cause.STALLED, Cause.SUBMISSION_FAILED})
# Seconds to wait for the loss of a machine to be detected, which takes node controllers minutes.
_NODE_GONE = 600.0


def explain_by_head(scene: Scene) -> Evidence | None:
    """Explain an end by what happened to the head. Return None if better evidence exists."""
    status = scene.status
    # The driver's own report explains its end better.
    if status.outcome is not None or status.end_time is None:
        return None
    explained = [
        record
        for record in status.evidence
        if record.cause not in _VAGUE and not is_of(record, Role.WORKER)
    ]
    # Any other evidence with a specific cause is better, unless it merely repeats that the driver
    # is gone.
    if not all(map(_is_echo, explained)):
        return None
    evidence = _find_silent_node(scene, status.end_time) or _find_vanished_node(scene)
    # A lost node can explain even an exit code. A missing head counts only without other evidence.
    return evidence or (None if explained else _find_taken_head(scene) or _find_unseen_head(scene))


def _is_echo(record: EvidenceRecord) -> bool:
    """Return True if evidence is only KubeRay's or a kubelet's reaction to a driver's end.

    A driver that is killed together with its node leaves an exit code, too.
    """
    is_vague = record.cause in {Cause.APPLICATION_ERROR, Cause.KILLED}
    return is_vague and record.source in {"rayjob", "pod"}


def _find_vanished_node(scene: Scene) -> Evidence | None:
    """Return evidence of a head that was not being deleted while its node was lost or removed.

    The loss may become visible late. The operator's own teardown deletes a head, but never its
    node.
    """
    end_time = scene.status.end_time
    # A node that is removed much later, while the failed attempt is on hold, did not end the
    # attempt.
    if end_time is None or scene.now > end_time + _NODE_GONE:
        return None
    for pod in filter(is_head, scene.all_pods):
        taker = None if pod.meta.is_deleting else scene.find_taker(pod)
        if taker is not None:
            return blame_taking(pod, taker)
    return None


def _find_silent_node(scene: Scene, end_time: float) -> Evidence | None:
    for pod in filter(is_head, scene.all_pods):
        evidence, node = find_lost_node(pod, scene.nodes, scene.marks), scene.nodes.get(pod.node)
        # A node that stopped responding only after the end, during the teardown, did not end the
        # attempt.
        if evidence and node and (node.since is None or node.since <= end_time):
            return evidence
    return None


def _find_taken_head(scene: Scene) -> Evidence | None:
    """Return evidence of a head that disappeared before its containers ended, as if by force.

    A teardown by the operator or KubeRay would have respected the grace period.
    """
    # Deleting a RayJob deletes its pods, so a missing head then proves nothing.
    if scene.rayjob is None or scene.rayjob.meta.is_deleting:
        return None
    losses = (record for record in list_losses(scene) if may_explain(scene, record))
    cut = (record.evidence for record in losses if record.details.get("reason") == BY_FORCE)
    return next(cut, None)


def _find_unseen_head(scene: Scene) -> Evidence | None:
    """Return evidence of a head that disappeared while neither KubeRay nor the operator ran.

    No driver reported a failure, and a head does not disappear on its own.
    """
    is_there = any(map(is_head, scene.all_pods)) or any(
        is_of(record, Role.HEAD) for record in scene.status.losses
    )
    # Deleting a cluster, manually or because its TTL expired, also deletes its head.
    has_cluster = any(not cluster.meta.is_deleting for cluster in scene.clusters)
    if is_there or not has_cluster or scene.rayjob is None or not is_lost(scene.rayjob):
        return None
    message = "the head pod is gone for an unknown reason"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": scene.rayjob.reason})
