"""Whether an attempt is over, and on whose word: its driver's, its RayJob's, or nobody's.

This room must not know what is torn down, nor how several words are weighed.
"""

from __future__ import annotations

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.status.pipeline_status import Progress
from strandline_operator.decide.evidence import find_rayjob_evidence
from strandline_operator.decide.nodes import find_lost_node
from strandline_operator.decide.scene import Scene, is_head
from strandline_operator.model.objects import RayJob

# A RayJob that KubeRay starts again would run the driver a second time; to us its first has ended.
TERMINAL = frozenset({"Complete", "Failed", "ValidationFailed", "Retrying"})
# Ends that a teardown, ours or somebody's, gives to a driver.
_BY_TEARDOWN = frozenset({Cause.INTERRUPTED, Cause.KILLED})
# What is said where nobody knows; a node that is lost explains it.
_VAGUE = frozenset({Cause.UNKNOWN, Cause.STALLED, Cause.SUBMISSION_FAILED})
_DELETED = "Deleted"


def find_end(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """Why an attempt is over that did not complete; None where it goes on or completed."""
    rayjob, said = scene.rayjob, read_outcome(status)
    is_deleted = _is_deleted(scene, status)
    if said is not None and not (is_deleted and said.cause in _BY_TEARDOWN):
        return said
    if is_complete(scene, status):
        return None
    if is_deleted:
        message = "its RayJob was deleted by someone else"
        return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": _DELETED})
    if rayjob is None or rayjob.deployment not in TERMINAL:
        return None
    return next(find_rayjob_evidence(rayjob), None) or Evidence(
        Cause.UNKNOWN, f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message}", "rayjob"
    )


def is_complete(scene: Scene, status: AttemptStatus) -> bool:
    """Whether the driver has done all there was to do, by its own word or KubeRay's."""
    if status.outcome is not None and status.outcome.exit_code is not None:
        return status.outcome.exit_code == 0
    return scene.rayjob is not None and _has_succeeded(scene.rayjob)


def read_outcome(status: AttemptStatus) -> Evidence | None:
    """What a driver that has ended badly said of it."""
    said = status.outcome
    seen = read_exit(said.exit_code) if said and said.exit_code else None
    if said is None or seen is None:
        return None
    return Evidence(seen.cause, said.message or seen.message, "outcome", seen.details)


def read_late_outcome(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """The same where it comes after the end, unless our own teardown brought it about."""
    said = read_outcome(status)
    return None if said is None or is_by_teardown(scene, status, said.cause) else said


def is_by_teardown(scene: Scene, status: AttemptStatus, cause: Cause) -> bool:
    """Whether an attempt that had ended gave its driver, by its teardown, the end it tells of."""
    rayjob = scene.rayjob
    is_before = rayjob is not None and not rayjob.meta.is_deleting
    is_unexplained = all(record.cause is Cause.UNKNOWN for record in status.evidence)
    return cause in _BY_TEARDOWN and not is_before and not is_unexplained


def read_progress(status: AttemptStatus, time: float | None) -> Progress | None:
    """How far an attempt came by its driver's last word; None where that does not say."""
    outcome = status.outcome
    if outcome is None or outcome.sources is None:
        return None
    if outcome.sources.total is None and status.progress is not None:
        return None  # it was cut off, and knew more before
    return Progress.parse({**outcome.sources.to_json()}).model_copy(update={"time": time})


def weigh(status: AttemptStatus) -> tuple[Evidence, ...]:
    """The evidence that may name the cause.

    That somebody deleted the RayJob says why a driver was stopped, not why it had failed before.
    """
    said = read_outcome(status)
    if said is None or said.cause in _BY_TEARDOWN:
        return status.sights
    return tuple(one for one in status.sights if one.details.get("reason") != _DELETED)


def explain_by_head(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """What became of the head, where nothing better tells why the attempt ended."""
    causes = {record.cause for record in status.evidence}
    if status.outcome is not None or not causes <= _VAGUE or status.end_time is None:
        return None
    return _find_silent_node(scene, status.end_time) or _find_taken_head(scene)


def _find_silent_node(scene: Scene, ended: float) -> Evidence | None:
    for pod in filter(is_head, scene.all_pods):
        seen, node = find_lost_node(pod, scene.nodes), scene.nodes.get(pod.node)
        # One that fell silent during our own teardown has ended nothing.
        if seen and node and (node.since is None or node.since <= ended):
            return seen
    return None


def _find_taken_head(scene: Scene) -> Evidence | None:
    """A head that went without an end of its containers: no kubelet has taken it away.

    Nor has a teardown, ours or KubeRay's, which leaves pods their grace.
    """
    if scene.rayjob is None or scene.rayjob.meta.is_deleting:
        return None
    for pod in filter(is_head, scene.gone_pods):
        if pod.phase == "Running" and not any(one.ends for one in pod.containers):
            message = f"the head pod {pod.meta.name} was deleted by force"
            return Evidence(Cause.INTERRUPTED, message, "pod", {"pod": pod.meta.name})
    return None


def _is_deleted(scene: Scene, status: AttemptStatus) -> bool:
    """Whether its RayJob was deleted, while we had not ended it."""
    if scene.rayjob is not None:
        return scene.rayjob.meta.is_deleting
    # A server that has just started may not know KubeRay's kinds yet.
    return status.ray_job is not None and (scene.has_kuberay or not scene.pods)


def _has_succeeded(rayjob: RayJob) -> bool:
    return rayjob.deployment == "Complete" and rayjob.job == "SUCCEEDED"
