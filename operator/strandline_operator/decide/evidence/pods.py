"""Reads evidence from pods and from the driver's own report.

KubeRay deletes a pod within seconds of its end, so an ordinary teardown looks like a failure: exit
code 1 or 137 of a pod that is being deleted proves nothing. The only reliable evidence is a
specific reason: OOMKilled, a disruption, or the driver's exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from strandline_api.names import GROUP_LABEL, ROLE_LABEL
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.evidence import Evidence
from strandline_api.spec.pod_paths import CONTAINERS, SUBMITTER_CONTAINER
from strandline_operator.decide.evidence.disruptions import PodDisruption, find_taking, is_reserved
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import OOM_KILLED, Container, Pod, Termination
from strandline_operator.render.order import Role

SIGKILLED = 137
IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)
RAY = "ray"
_RAY_ADDRESS = re.compile(r"\bIP: ([0-9a-fA-F.:]+)")


def find_pod_evidence(
    pod: Pod, marks: NodeMarks | None = None, notices: Iterable[Notice] = ()
) -> Iterator[Evidence]:
    """Yield all evidence in a pod's last state.

    Args:
        marks: marks of its node when the pod disappeared, or None if unknown.
        notices: events that may be about the pod or its node.
    """
    taking = find_taking(pod, marks, notices)
    # A disruption explains why the pod's containers ended, so it comes first.
    if taking is not None:
        yield blame_taking(pod, taking)
    for container in pod.containers:
        # Ignore init containers and sidecars, which may end or restart while Ray continues.
        if container.name in CONTAINERS:
            for end in container.ends:
                yield from _read_end(pod, container, end, is_explained=taking is not None)


def find_foreign_kills(pod: Pod) -> Iterator[Evidence]:
    """Yield out-of-memory kills of init containers and sidecars, which do not end a driver.

    Ray runs without these containers, so more memory for Ray would not help.
    """
    for container in pod.containers:
        killed = (end for end in container.ends if end.reason == OOM_KILLED)
        for end in killed if container.name not in CONTAINERS else ():
            message = f"container {container.name} of pod {pod.meta.name} was killed for memory"
            yield _blame(pod, Cause.UNKNOWN, message, container.name, end)


def blame_taking(pod: Pod, taking: PodDisruption) -> Evidence:
    """Return evidence of a pod's disruption."""
    role = pod.meta.labels.get(ROLE_LABEL, "")
    message = f"{role or 'pod'} {pod.meta.name}: {taking.sentence}"
    # Keep the disruption's cause even for a submitter: its loss is not a failed submission.
    evidence = replace(
        _blame(pod, taking.kind.cause, message, reason=taking.kind.value), cause=taking.kind.cause
    )
    mark = {"mark": taking.mark} if taking.mark else {}
    capacity = {"capacity": "spot"} if taking.is_spot else {}
    details = {**evidence.details, **mark, **capacity}
    return replace(evidence, details=details, time=_date_taking(pod))


def _date_taking(pod: Pod) -> float | None:
    """Return when a pod was disrupted, according to its condition or the end of its containers."""
    if pod.disrupted is not None:
        return pod.disrupted
    stopped = (each for each in pod.containers if each.name in CONTAINERS and not each.is_running)
    times = [each.ends[0].time for each in stopped if each.ends]
    return max((time for time in times if time is not None), default=None)


def find_image_problem(pod: Pod) -> Evidence | None:
    """Return evidence of an image that can't be pulled, while a container is waiting for it."""
    for container in pod.containers:
        if container.waiting in IMAGE_REASONS:
            words = container.waiting_message or container.waiting
            message = f"pod {pod.meta.name} can't pull its image: {words}"
            return _blame(
                pod, Cause.IMAGE_PULL_FAILURE, message, container.name, reason=container.waiting
            )
    return None


def find_reserved_name(pod: Pod) -> Evidence | None:
    """Return evidence of a container that can't be created because its name is still in use.

    A crash of the node or of its container runtime causes this state.
    """
    for container in pod.containers:
        if container.waiting and is_reserved(container.waiting_message):
            taking = PodDisruption(
                Disruption.NODE_RESTARTED,
                pod.node,
                words=container.waiting_message,
                mark=container.waiting,
            )
            return blame_taking(pod, taking)
    return None


def find_last_line(end: Termination) -> str:
    """Return the last line of a container's output, which for a traceback is the exception.

    Return an empty string if there is no output.
    """
    return next(reversed(end.message.strip().splitlines()), "")


def find_outcome(pod: Pod) -> DriverOutcome | None:
    """Return the driver's outcome if a container of the head wrote it on termination, or None."""
    # A worker runs user code, which may print anything.
    if pod.meta.labels.get(ROLE_LABEL) != Role.HEAD:
        return None
    ends = (end for container in pod.containers for end in container.ends)
    return next((outcome for end in ends if (outcome := find_outcome_line(end.message))), None)


def locate_kill(kill: Evidence, pods: Iterable[Pod]) -> Evidence:
    """Add details about the killed pod, found by address, to evidence of an out-of-memory kill."""
    match = _RAY_ADDRESS.search(kill.message)
    # Only evidence from Ray does not name the pod.
    if kill.source != RAY or kill.cause is not Cause.OOM_KILLED or match is None:
        return kill
    pod_of_address = next((pod for pod in pods if pod.ip == match[1]), None)
    # The operator may have forgotten the pod, but the kill still happened.
    if pod_of_address is None:
        return kill
    return replace(kill, details={**kill.details, **_blame(pod_of_address, kill.cause, "").details})


def _read_end(
    pod: Pod, container: Container, end: Termination, *, is_explained: bool
) -> Iterator[Evidence]:
    # Trust this reason even if the pod is being deleted: a deletion never sets OOMKilled.
    if end.reason == OOM_KILLED:
        message = f"container {container.name} of pod {pod.meta.name} was killed for memory"
        yield _blame(pod, Cause.OOM_KILLED, message, container.name, end)
    # A deletion kills containers after the grace period, and losing a node kills all its
    # containers. In both cases, signal 9 explains nothing.
    elif end.exit_code == SIGKILLED and not (is_explained or pod.meta.is_deleting or pod.is_gone):
        message = f"container {container.name} of pod {pod.meta.name} was killed by signal 9"
        yield _blame(pod, Cause.KILLED, message, container.name, end)


def _format_end(end: Termination) -> str:
    """Format a container's end time. Return an empty string if it is unknown or out of range."""
    with suppress(ValueError):
        return "" if end.time is None else format_time(end.time)
    return ""


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
    # A submitter container belongs neither to Ray nor to the driver, even in the head pod.
    is_submitter = role == Role.SUBMITTER or container == SUBMITTER_CONTAINER
    details: dict[str, str | int] = {"pod": pod.meta.name, "podUid": pod.meta.uid}
    details |= {"node": pod.node, "role": role}
    details["group"] = pod.meta.labels.get(GROUP_LABEL, role)
    if container:
        details["container"] = container
    if end is not None:
        details |= {"exitCode": end.exit_code, "reason": end.reason}
        details["finishedAt"] = _format_end(end)
    if reason:
        details["reason"] = reason
    # A submitter that ends early means a failed submission. Keep the cause of a missing image,
    # which requires a different fix.
    if is_submitter and cause is not Cause.IMAGE_PULL_FAILURE:
        cause = Cause.SUBMISSION_FAILED
    known = {name: detail for name, detail in details.items() if detail != ""}
    return Evidence(cause, message, "pod", known, None if end is None else end.time)
