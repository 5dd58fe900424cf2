"""Why an attempt ended, from its pods, its RayJob and its driver's own word.

KubeRay deletes a pod within seconds of its end, so pods are seen on their way out, and an ordinary
teardown looks like a failure: exit code 1 or 137 on a pod that is being deleted says nothing. What
can be trusted is a reason that somebody gave: OOMKilled, a disruption, the driver's exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from strandline_api.names import GROUP_LABEL, ROLE_LABEL
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.spec.pod_places import AUTOSCALER_CONTAINER
from strandline_api.status.pipeline_status import Progress
from strandline_operator.decide.scene import Scene, find_lost_node, is_head
from strandline_operator.model.objects import Container, Pod, RayJob, Termination
from strandline_operator.render.order import Role

OOM_KILLED = "OOMKilled"
SIGKILLED = 137
IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)
RAY = "ray"
_RAY_ADDRESS = re.compile(r"\bIP: ([0-9a-fA-F.:]+)")
_EXIT_CODE = re.compile(r"exit code (\d{1,3})\b")
_DISRUPTIONS = {
    "PreemptionByScheduler": Cause.PREEMPTED,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "TerminationByKubelet": Cause.EVICTED,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
}
_POD_REASONS = {
    "Evicted": Cause.EVICTED,
    "Preempting": Cause.PREEMPTED,
    "NodeShutdown": Cause.EVICTED,
    "Terminated": Cause.EVICTED,
    "NodeLost": Cause.NODE_LOST,
    "NodeAffinity": Cause.NODE_LOST,
    "UnexpectedAdmissionError": Cause.NODE_LOST,
}
# Ray's own process was killed, and the program with it: no error of the program.
_SUPERVISOR_DIED = "Job supervisor actor died"
_RAYJOB_REASONS = {
    "DeadlineExceeded": Cause.DEADLINE_EXCEEDED,
    "PreRunningDeadlineExceeded": Cause.SCHEDULING_TIMEOUT,
    "ValidationFailed": Cause.INVALID_SPEC,
    "SubmissionFailed": Cause.SUBMISSION_FAILED,
    "JobStatusCheckTimeoutExceeded": Cause.STALLED,
}


def find_pod_evidence(pod: Pod) -> Iterator[Evidence]:
    """All that a pod's last body says of a cause."""
    role = pod.meta.labels.get(ROLE_LABEL, "")
    disruption = _DISRUPTIONS.get(pod.disruption, Cause.EVICTED) if pod.disruption else None
    disruption = disruption or _POD_REASONS.get(pod.reason)
    if disruption is not None:
        words = pod.disruption_message or pod.message or pod.disruption or pod.reason
        reason = pod.disruption or pod.reason
        yield _blame(pod, disruption, f"{role or 'pod'} {pod.meta.name}: {words}", reason=reason)
    for container in pod.containers:
        # Without its autoscaler a cluster stays as large as it is, and goes on.
        if container.name != AUTOSCALER_CONTAINER:
            for end in container.ends:
                yield from _read_end(pod, container, end)


def find_image_problem(pod: Pod) -> Evidence | None:
    """That an image can't be pulled, where a container waits for one."""
    for container in pod.containers:
        if container.waiting in IMAGE_REASONS:
            words = container.waiting_message or container.waiting
            message = f"pod {pod.meta.name} can't pull its image: {words}"
            return _blame(
                pod, Cause.IMAGE_PULL_FAILURE, message, container.name, reason=container.waiting
            )
    return None


def find_outcome(pod: Pod) -> DriverOutcome | None:
    """The driver's own word, where a container of the head has left it as its last message."""
    if pod.meta.labels.get(ROLE_LABEL) != Role.HEAD:
        return None
    ends = (end for container in pod.containers for end in container.ends)
    return next((found for end in ends if (found := find_outcome_line(end.message))), None)


def place_kill(seen: Evidence, pods: Iterable[Pod]) -> Evidence:
    """What Ray said of a kill for memory, with the pod it names by its address."""
    named = _RAY_ADDRESS.search(seen.message)
    if seen.source != RAY or seen.cause is not Cause.OOM_KILLED or named is None:
        return seen
    found = next((pod for pod in pods if pod.ip == named[1]), None)
    if found is None:
        return seen
    return replace(seen, details={**seen.details, **_blame(found, seen.cause, "").details})


def find_rayjob_evidence(rayjob: RayJob) -> Iterator[Evidence]:
    """What a RayJob that has ended badly says of a cause, where it can be trusted."""
    cause = _RAYJOB_REASONS.get(rayjob.reason)
    if rayjob.deployment == "ValidationFailed":
        cause = Cause.INVALID_SPEC
    if cause is not None:
        message = f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message or 'no message'}"
        yield Evidence(cause, message, "rayjob", {"reason": rayjob.reason})
        return
    if rayjob.job == "STOPPED":
        yield Evidence(Cause.INTERRUPTED, "the Ray job was stopped", "rayjob", {})
    if rayjob.job != "FAILED":  # KubeRay has lost the job; the words are its own, not the job's
        return
    found = _EXIT_CODE.search(rayjob.message)
    seen = read_exit(int(found[1])) if found else None
    if seen is not None:
        yield Evidence(seen.cause, seen.message, "rayjob", seen.details)
        return
    message = rayjob.message or "the driver failed"
    is_killed = message.startswith(_SUPERVISOR_DIED)
    cause = Cause.KILLED if is_killed else Cause.APPLICATION_ERROR
    yield Evidence(cause, message, "rayjob", {"reason": rayjob.reason})


def _read_end(pod: Pod, container: Container, end: Termination) -> Iterator[Evidence]:
    if end.reason == OOM_KILLED:
        message = f"container {container.name} of pod {pod.meta.name} was killed for memory"
        yield _blame(pod, Cause.OOM_KILLED, message, container.name, end)
    elif end.exit_code == SIGKILLED and not (pod.meta.is_deleting or pod.is_gone):
        message = f"container {container.name} of pod {pod.meta.name} was killed by signal 9"
        yield _blame(pod, Cause.KILLED, message, container.name, end)


def _blame(
    pod: Pod,
    cause: Cause,
    message: str,
    container: str = "",
    end: Termination | None = None,
    *,
    reason: str = "",
) -> Evidence:
    role = pod.meta.labels.get(ROLE_LABEL, "")
    details: dict[str, str | int] = {"pod": pod.meta.name, "node": pod.node, "role": role}
    details["group"] = pod.meta.labels.get(GROUP_LABEL, role)
    if container:
        details["container"] = container
    if end is not None:
        details |= {"exitCode": end.exit_code, "reason": end.reason}
    if reason:
        details["reason"] = reason
    if role == Role.SUBMITTER and cause is not Cause.IMAGE_PULL_FAILURE:
        cause = Cause.SUBMISSION_FAILED  # the driver does not live in that pod
    return Evidence(
        cause, message, "pod", {name: one for name, one in details.items() if one != ""}
    )


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
