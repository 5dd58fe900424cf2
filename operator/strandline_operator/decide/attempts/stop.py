"""Reasons to stop a running attempt before it ends by itself."""

from __future__ import annotations

from collections.abc import Callable

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.attempts.fallback import describe_lost_start, find_fallback
from strandline_operator.decide.attempts.losses import (
    DELETED,
    find_lost_heads,
    is_nameless,
    list_unabsorbed,
)
from strandline_operator.decide.attempts.queueing import find_suspension
from strandline_operator.decide.attempts.silence import find_stall
from strandline_operator.decide.evidence.pods import find_image_problem, find_reserved_name
from strandline_operator.decide.obstacles.code import find_lost_code
from strandline_operator.decide.obstacles.delays import (
    explain_delay,
    find_refusal,
    is_starting,
)
from strandline_operator.decide.obstacles.room.shortages import describe_misfit, find_misfit
from strandline_operator.decide.obstacles.token import find_missing_token
from strandline_operator.decide.obstacles.volumes.attachment import is_kept_by_volume
from strandline_operator.decide.obstacles.volumes.claims import lacks_volume
from strandline_operator.decide.scene import Scene, find_first, find_lost_node, is_head, role_of
from strandline_operator.model.objects import Pod

# Terminating pods may still use up the quota. By then KubeRay has retried at least eight times.
_QUOTA_WAIT = 10.0
PAST = 0.1  # tolerance in seconds for a time that must have passed


def find_stop(scene: Scene) -> Evidence | None:
    """Return the first reason to end a running attempt; None if it may continue."""
    return find_first(_REASONS, scene)


def find_next_deadline(scene: Scene) -> float | None:
    """Return when the next deadline of a running attempt passes; None if it has no deadline."""
    start_time = scene.status.start_time
    longest = None if _waits_freely(scene) else _find_longest_start(scene)
    # Once the driver runs, the start deadline no longer applies.
    if scene.status.running_time is not None:
        start_time, longest = scene.status.running_time, scene.spec.deadlines.attempt_seconds
    return None if start_time is None or longest is None else start_time + longest + PAST


def _find_longest_start(scene: Scene) -> float:
    return scene.spec.deadlines.pre_running_seconds or scene.limits.pre_running


def _waits_freely(scene: Scene) -> bool:
    """Return whether an attempt lacks capacity and its wait has no limit."""
    return bool(scene.status.no_room_since) and scene.spec.deadlines.pre_running_seconds is None


def _find_lost_head(scene: Scene) -> Evidence | None:
    """Return a head stuck in deletion on a lost node, or a head that restarted in place.

    KubeRay may wait forever for the deletion, or for the restarted head.
    """
    heads = list(filter(is_head, scene.all_pods))
    losses = (find_lost_node(pod, scene.nodes, scene.marks) for pod in heads)
    revived = (next(scene.read_pod(pod), None) for pod in heads if pod.is_revived)
    return next(filter(None, (*losses, *revived)), None)


def _find_second_run(scene: Scene) -> Evidence | None:
    """Return a head that KubeRay replaced after the start of the driver."""
    running_time, heads = scene.status.running_time, [pod for pod in scene.all_pods if is_head(pod)]
    # An earlier process of the operator may have recorded the loss of the previous head.
    visible, records = {pod.meta.uid for pod in heads}, find_lost_heads(scene.status)
    unseen = [each for each in records if each.details.get("podUid") not in visible]
    is_alone = len(visible) + len(unseen) <= 1
    # Before the driver starts, KubeRay may replace the head: no work is repeated.
    if running_time is None or is_alone or not any(_is_later(pod, running_time) for pod in heads):
        return None
    lost_head = next((pod for pod in heads if pod.is_gone or pod.meta.is_deleting), None)
    if lost_head is not None:
        replaced = _describe_replaced(lost_head.meta.name, is_deleted=lost_head.meta.is_deleting)
        return next(scene.read_pod(lost_head), replaced)
    record = next(iter(unseen), None)
    # The lost pod is no longer visible, but its recorded disruption still explains the loss.
    if record is not None and not is_nameless(record):
        return record.evidence
    name = str(record.details.get("pod")) if record is not None else ""
    is_deleted = record is not None and record.details.get("reason") == DELETED
    return _describe_replaced(name, is_deleted=is_deleted)


def _describe_replaced(name: str, *, is_deleted: bool) -> Evidence:
    """Describe a head that KubeRay has replaced."""
    # A user deleted the pod; no record names the user.
    if is_deleted:
        message = f"the head pod {name} was deleted and replaced"
        return Evidence(Cause.INTERRUPTED, message, "pod", {"pod": name})
    return Evidence(Cause.NODE_LOST, "the head pod was replaced", "pod")


def _is_later(head: Pod, running_time: float) -> bool:
    """Return whether a head was created after the driver's start.

    An earlier head may be replaced.
    """
    return not head.meta.created or head.meta.created > running_time


def _find_second_start(scene: Scene) -> Evidence | None:
    """Return a driver that restarted on the same head; pods do not show that."""
    rayjob, first = scene.rayjob, scene.status.job_start_time
    # KubeRay clears the time during a restart, so only a different time proves a second start.
    if rayjob is None or first is None or rayjob.started in {None, first}:
        return None
    message = f"RayJob {rayjob.meta.name} started its driver a second time"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": "SecondStart"})


def _find_quota(scene: Scene) -> Evidence | None:
    """Return a quota that stays exhausted, so that KubeRay can't create the pods."""
    # A worker that lacks capacity later does not end a running driver.
    if scene.status.running_time is not None or not is_starting(scene):
        return None
    refused = find_refusal(scene)
    if refused is None or not refused.is_by_quota or scene.now - refused.since <= _QUOTA_WAIT:
        return None
    source = "job" if refused.is_submitter else "raycluster"
    return Evidence(Cause.QUOTA_EXCEEDED, refused.words, source)


def _find_refused_submitter(scene: Scene) -> Evidence | None:
    """Return a submitter that can't be created although its cluster is ready."""
    # A running driver was submitted, so earlier rejections no longer matter.
    if scene.status.running_time is not None or not is_starting(scene):
        return None
    refused = find_refusal(scene)
    if refused is None or not refused.is_submitter:
        return None
    # A user may fix the cause within this time, as for a missing image.
    is_late = scene.now - refused.since > scene.limits.image_pull
    return Evidence(Cause.SUBMISSION_FAILED, refused.words, "job") if is_late else None


def find_overrun(scene: Scene) -> Evidence | None:
    """Return an attempt that exceeded a deadline."""
    longest, running_time = scene.spec.deadlines.attempt_seconds, scene.status.running_time
    if longest is None or running_time is None or scene.now - running_time <= longest:
        return None
    message = f"the attempt ran longer than deadlines.attempt allows: {longest:g} s"
    return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline", time=running_time + longest)


def _find_late_start(scene: Scene) -> Evidence | None:
    """Return a driver that does not start in time; time in a queue does not count."""
    start_time, is_begun = scene.status.start_time, scene.status.running_time is not None
    # Time in a queue does not count towards the deadline.
    if scene.rayjob is None or start_time is None or is_begun or scene.is_queued:
        return None
    waited, longest = scene.now - start_time, _find_longest_start(scene)
    image = next(filter(None, map(find_image_problem, scene.pods)), None)
    # A missing image rarely appears by itself, so the limit is shorter than the limit for nodes.
    if image is not None and waited > scene.limits.image_pull:
        return image
    # A pod that fits no node would also wait forever.
    misfit = find_misfit(scene)
    if misfit is not None and waited > min(scene.limits.image_pull, longest):
        words = describe_misfit(*misfit)
        return Evidence(Cause.SCHEDULING_TIMEOUT, f"{words[:1].lower()}{words[1:]}", "deadline")
    # Missing capacity is not a failure: spot nodes may be unavailable for hours.
    if waited <= longest or is_kept_by_volume(scene) or _waits_freely(scene):
        return None
    # A known obstacle explains more than an exceeded deadline.
    if image is not None:
        return image
    return describe_lost_start(scene, longest) or _describe_slow_start(scene, longest)


def _describe_slow_start(scene: Scene, longest: float) -> Evidence:
    why = explain_delay(scene)
    message = f"the driver did not start within {longest:g} s{why and ': '}{why}"
    # A retry would wait for the same claim.
    cause = Cause.VOLUME_UNUSABLE if lacks_volume(scene) else Cause.SCHEDULING_TIMEOUT
    return Evidence(cause, message, "deadline")


def _find_reserved_name(scene: Scene) -> Evidence | None:
    """Return a head whose container can't be created because the previous one was not released."""
    heads = [pod for pod in scene.pods if is_head(pod) and not pod.meta.is_deleting]
    reserved = next(filter(None, map(find_reserved_name, heads)), None)
    start_time = scene.status.start_time
    if reserved is None or scene.rayjob is None or start_time is None or scene.is_queued:
        return None
    # A started driver is lost in this state. Before the start, a slow disk causes the same state
    # temporarily.
    is_over = scene.status.running_time is not None
    return reserved if is_over or scene.now - start_time > scene.limits.image_pull else None


def _find_worker_loss(scene: Scene) -> Evidence | None:
    policy = scene.spec.on_worker_loss
    for loss in list_unabsorbed(scene.status):
        action = policy.oom if loss.cause is Cause.OOM_KILLED else policy.disruption
        # By this policy, the loss ends the attempt, and the next attempt gets a new cluster.
        if action == "Recreate":
            return loss.evidence
    return None


def _find_lost_submitter(scene: Scene) -> Evidence | None:
    """Return a submitter that ended earlier, unnoticed by KubeRay, while the driver is silent."""
    is_reported = scene.driver is not None and scene.driver.progress is not None
    # A driver that answers no longer needs a submitter.
    if is_reported or scene.rayjob is None or any(map(_may_submit, scene.pods)):
        return None
    ends = (pod.submitter_end for pod in scene.pods)
    end_time = max((end.time for end in ends if end and end.time is not None), default=None)
    # Within this time KubeRay detects the end, and reports more details.
    if end_time is None or scene.now - end_time <= scene.limits.submitter:
        return None
    message = f"the submitter ended {scene.now - end_time:.0f} s ago, and KubeRay has not noticed"
    return Evidence(Cause.SUBMISSION_FAILED, message, "pod")


def _may_submit(pod: Pod) -> bool:
    """Return whether a submitter is running in a pod, or will be."""
    is_own = role_of(pod) == "submitter" and pod.phase in {"Pending", "Running"}
    return is_own and pod.submitter_end is None


# The first match ends the attempt and names its cause. Losses come before deadlines: a lost head
# must not be reported as a late start.
_REASONS: tuple[Callable[[Scene], Evidence | None], ...] = (
    _find_lost_head,
    find_lost_code,
    find_missing_token,
    _find_second_run,
    _find_second_start,
    find_suspension,
    _find_quota,
    _find_refused_submitter,
    find_overrun,
    _find_reserved_name,
    find_fallback,
    _find_late_start,
    _find_worker_loss,
    _find_lost_submitter,
    find_stall,
)
