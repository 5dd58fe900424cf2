"""What became of the head, for an end that nothing better explains."""

from __future__ import annotations

from strandline_api.objects.attempt import EvidenceRecord
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.attempts.losses import BY_FORCE, is_of, list_losses, may_explain
from strandline_operator.decide.evidence.pods import blame_taking
from strandline_operator.decide.evidence.rayjobs import is_lost
from strandline_operator.decide.scene import Scene, find_lost_node, is_head
from strandline_operator.render.order import Role

# Causes without an explanation; a lost node is one.
_VAGUE = frozenset({Cause.UNKNOWN, Cause.STALLED, Cause.SUBMISSION_FAILED})
# The controllers of nodes need some minutes to notice that a machine is gone.
_NODE_GONE = 600.0


def explain_by_head(scene: Scene) -> Evidence | None:
    """Explain what became of the head, where nothing better tells why the attempt ended."""
    status = scene.status
    # A driver's own word explains its end better than the head's fate does.
    if status.outcome is not None or status.end_time is None:
        return None
    explained = [
        record
        for record in status.evidence
        if record.cause not in _VAGUE and not is_of(record, Role.WORKER)
    ]
    # A named cause explains more than the absence of a pod does, unless it only repeats that the
    # driver is not there any more.
    if not all(map(_is_echo, explained)):
        return None
    evidence = _find_silent_node(scene, status.end_time) or _find_vanished_node(scene)
    return evidence or (None if explained else _find_taken_head(scene) or _find_unseen_head(scene))


def _is_echo(record: EvidenceRecord) -> bool:
    """Return whether evidence is what others made of a driver's end: KubeRay, or a kubelet.

    A driver that is killed with its node leaves an exit code too.
    """
    is_vague = record.cause in {Cause.APPLICATION_ERROR, Cause.KILLED}
    return is_vague and record.source in {"rayjob", "pod"}


def _find_vanished_node(scene: Scene) -> Evidence | None:
    """Return a head that was not being deleted, while its node is gone or was taken.

    The loss may show late: our own teardown tells a head to go, and takes no node.
    """
    end_time = scene.status.end_time
    # A node that goes while a failed attempt is held has ended nothing.
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
        # A node that fell silent during our own teardown has ended nothing.
        if evidence and node and (node.since is None or node.since <= end_time):
            return evidence
    return None


def _find_taken_head(scene: Scene) -> Evidence | None:
    """Return a head that went without an end of its containers: no kubelet has taken it away.

    Nor has a teardown, ours or KubeRay's, which leaves pods their grace.
    """
    # A deletion takes the pods along, so that they go says nothing.
    if scene.rayjob is None or scene.rayjob.meta.is_deleting:
        return None
    losses = (record for record in list_losses(scene) if may_explain(scene, record))
    cut = (record.evidence for record in losses if record.details.get("reason") == BY_FORCE)
    return next(cut, None)


def _find_unseen_head(scene: Scene) -> Evidence | None:
    """Return a head that went while neither KubeRay nor we were there, as when all are evicted.

    No driver has said that it failed, and a head that stands on its own does not vanish.
    """
    is_there = any(map(is_head, scene.all_pods)) or any(
        is_of(record, Role.HEAD) for record in scene.status.losses
    )
    # A cluster that is deleted, after a time or by hand, has taken it along.
    has_cluster = any(not cluster.meta.is_deleting for cluster in scene.clusters)
    if is_there or not has_cluster or scene.rayjob is None or not is_lost(scene.rayjob):
        return None
    message = "the head pod is gone for an unknown reason"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": scene.rayjob.reason})
