"""Finds reasons to stop a running attempt before it ends on its own."""

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

# Seconds for which an exhausted quota is tolerated, because terminating pods may still use the
# quota. KubeRay retries at least eight times in this period.
_QUOTA_WAIT = 10.0
PAST = 0.1  # seconds added to a deadline, so that it has passed for certain


def find_stop(scene: Scene) -> Evidence | None:
    """Return the first reason to end a running attempt, or None if it may continue."""
    return find_first(_REASONS, scene)


def find_next_deadline(scene: Scene) -> float | None:
    """Return when the next deadline of a running attempt passes, or None if it has no deadline."""
    start_time = scene.status.start_time
    longest = None if _waits_freely(scene) else _find_longest_start(scene)
    # Once the driver runs, the start deadline no longer applies.
    if scene.status.running_time is not None:
        start_time, longest = scene.status.running_time, scene.spec.deadlines.attempt_seconds
    return None if start_time is None or longest is None else start_time + longest + PAST


def _find_longest_start(scene: Scene) -> float:
    return scene.spec.deadlines.pre_running_seconds or scene.limits.pre_running


def _waits_freely(scene: Scene) -> bool:
    """Return True if an attempt lacks capacity and may wait for it without a limit."""
    return bool(scene.status.no_room_since) and scene.spec.deadlines.pre_running_seconds is None


def _find_lost_head(scene: Scene) -> Evidence | None:
    """Return evidence of a head that hangs in deletion on a lost node, or that restarted in place.

    KubeRay may wait forever for the deletion, or for the restarted head.
    """
    heads = list(filter(is_head, scene.all_pods))
    losses = (find_lost_node(pod, scene.nodes, scene.marks) for pod in heads)
    revived = (next(scene.read_pod(pod), None) for pod in heads if pod.is_revived)
    return next(filter(None, (*losses, *revived)), None)


def _find_second_run(scene: Scene) -> Evidence | None:
    """Return evidence of a head that KubeRay replaced after the driver had started, if any."""
    running_time, heads = scene.status.running_time, [pod for pod in scene.all_pods if is_head(pod)]
    # A previous operator process may have recorded the loss of the previous head.
    visible, records = {pod.meta.uid for pod in heads}, find_lost_heads(scene.status)
    unseen = [each for each in records if each.details.get("podUid") not in visible]
    is_alone = len(visible) + len(unseen) <= 1
    # Replacing a head before the driver starts is harmless, because no work is repeated.
    if running_time is None or is_alone or not any(_is_later(pod, running_time) for pod in heads):
        return None
    lost_head = next((pod for pod in heads if pod.is_gone or pod.meta.is_deleting), None)
    if lost_head is not None:
        replaced = _describe_replaced(lost_head.meta.name, is_deleted=lost_head.meta.is_deleting)
        return next(scene.read_pod(lost_head), replaced)
    record = next(iter(unseen), None)
    # The lost pod is no longer visible, but its recorded disruption explains the loss.
    if record is not None and not is_nameless(record):
        return record.evidence
    name = str(record.details.get("pod")) if record is not None else ""
    is_deleted = record is not None and record.details.get("reason") == DELETED
    return _describe_replaced(name, is_deleted=is_deleted)


def _describe_replaced(name: str, *, is_deleted: bool) -> Evidence:
    """Return evidence of a head that KubeRay has replaced for an unknown reason."""
    # A user deleted the pod, but no record names the user.
    if is_deleted:
        message = f"the head pod {name} was deleted and replaced"
        return Evidence(Cause.INTERRUPTED, message, "pod", {"pod": name})
    return Evidence(Cause.NODE_LOST, "the head pod was replaced", "pod")


def _is_later(head: Pod, running_time: float) -> bool:
    """Return True if a head was created after the driver's start, or at an unknown time.

    Replacing a head that was created earlier is harmless.
    """
    return not head.meta.created or head.meta.created > running_time


def _find_second_start(scene: Scene) -> Evidence | None:
    """Return evidence of a driver that started again on the same head, which pods do not show."""
    rayjob, first = scene.rayjob, scene.status.job_start_time
    # KubeRay clears the start time during a restart, so only a different time proves a second
    # start.
    if rayjob is None or first is None or rayjob.started in {None, first}:
        return None
    message = f"RayJob {rayjob.meta.name} started its driver a second time"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": "SecondStart"})


def _find_quota(scene: Scene) -> Evidence | None:
    """Return evidence that KubeRay can't create the pods because a quota remains exhausted."""
    # Once the driver is running, missing capacity for another worker does not end the attempt.
    if scene.status.running_time is not None or not is_starting(scene):
        return None
    refused = find_refusal(scene)
    if refused is None or not refused.is_by_quota or scene.now - refused.since <= _QUOTA_WAIT:
        return None
    source = "job" if refused.is_submitter else "raycluster"
    return Evidence(Cause.QUOTA_EXCEEDED, refused.words, source)


def _find_refused_submitter(scene: Scene) -> Evidence | None:
    """Return evidence that the submitter can't be created although its cluster is ready."""
    # A running driver was submitted, so earlier rejections are irrelevant.
    if scene.status.running_time is not None or not is_starting(scene):
        return None
    refused = find_refusal(scene)
    if refused is None or not refused.is_submitter:
        return None
    # Wait for the image pull limit: a user may fix the problem in the meantime.
    is_late = scene.now - refused.since > scene.limits.image_pull
    return Evidence(Cause.SUBMISSION_FAILED, refused.words, "job") if is_late else None


def find_overrun(scene: Scene) -> Evidence | None:
    """Return evidence that the attempt exceeded its deadline, if any."""
    longest, running_time = scene.spec.deadlines.attempt_seconds, scene.status.running_time
    if longest is None or running_time is None or scene.now - running_time <= longest:
        return None
    message = f"the attempt ran longer than deadlines.attempt allows: {longest:g} s"
    return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline", time=running_time + longest)


def _find_late_start(scene: Scene) -> Evidence | None:
    """Return evidence that the driver did not start in time, if any."""
    start_time, is_begun = scene.status.start_time, scene.status.running_time is not None
    # Time in a queue does not count toward the deadline.
    if scene.rayjob is None or start_time is None or is_begun or scene.is_queued:
        return None
    waited, longest = scene.now - start_time, _find_longest_start(scene)
    image = next(filter(None, map(find_image_problem, scene.pods)), None)
    # A missing image rarely appears by itself, so it has a shorter limit than missing nodes.
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
    # A known obstacle is more informative than an exceeded deadline.
    if image is not None:
        return image
    return describe_lost_start(scene, longest) or _describe_slow_start(scene, longest)


def _describe_slow_start(scene: Scene, longest: float) -> Evidence:
    why = explain_delay(scene)
    message = f"the driver did not start within {longest:g} s{why and ': '}{why}"
    # A missing volume has its own cause, because a retry would wait for the same claim.
    cause = Cause.VOLUME_UNUSABLE if lacks_volume(scene) else Cause.SCHEDULING_TIMEOUT
    return Evidence(cause, message, "deadline")


def _find_reserved_name(scene: Scene) -> Evidence | None:
    """Return evidence that the head's container can't be created: its name is still in use."""
    heads = [pod for pod in scene.pods if is_head(pod) and not pod.meta.is_deleting]
    reserved = next(filter(None, map(find_reserved_name, heads)), None)
    start_time = scene.status.start_time
    if reserved is None or scene.rayjob is None or start_time is None or scene.is_queued:
        return None
    # A driver that had started is lost. Before the start, a slow disk can cause this state
    # temporarily, so wait for the image pull limit.
    is_over = scene.status.running_time is not None
    return reserved if is_over or scene.now - start_time > scene.limits.image_pull else None


def _find_worker_loss(scene: Scene) -> Evidence | None:
    policy = scene.spec.on_worker_loss
    for loss in list_unabsorbed(scene.status):
        action = policy.oom if loss.cause is Cause.OOM_KILLED else policy.disruption
        # With this policy, a worker loss ends the attempt, and the next attempt gets a new cluster.
        if action == "Recreate":
            return loss.evidence
    return None


def _find_lost_submitter(scene: Scene) -> Evidence | None:
    """Return evidence of a submitter that ended unnoticed by KubeRay while the driver is silent."""
    is_reported = scene.driver is not None and scene.driver.progress is not None
    # A driver that responds no longer needs a submitter.
    if is_reported or scene.rayjob is None or any(map(_may_submit, scene.pods)):
        return None
    ends = (pod.submitter_end for pod in scene.pods)
    end_time = max((end.time for end in ends if end and end.time is not None), default=None)
    # Until then, wait for KubeRay to detect the end, because KubeRay reports more details.
    if end_time is None or scene.now - end_time <= scene.limits.submitter:
        return None
    message = f"the submitter ended {scene.now - end_time:.0f} s ago, and KubeRay has not noticed"
    return Evidence(Cause.SUBMISSION_FAILED, message, "pod")


def _may_submit(pod: Pod) -> bool:
    """Return True if a submitter is running or waiting to start in a pod."""
    is_own = role_of(pod) == "submitter" and pod.phase in {"Pending", "Running"}
    return is_own and pod.submitter_end is None


# The first match ends the attempt and determines its cause. Losses come before deadlines, because a
# lost head must not be reported as a late start.
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
