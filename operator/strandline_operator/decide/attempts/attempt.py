"""Decides the next step of one attempt: launch, watch, end, tear down, or freeze.

An attempt ends as soon as its driver, its RayJob, or the operator reports the end. The cause may
still change while late evidence arrives. Once no pod of the attempt can run, the attempt is frozen:
its cause is final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from strandline_api.api_model import evolve
from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import (
    AttemptStatus,
)
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import AttemptPhase
from strandline_api.status.reasons import Reason
from strandline_operator.decide.attempts.drains import find_held_drain
from strandline_operator.decide.attempts.ending import (
    end,
    find_end,
    has_ended_after,
    has_ended_before,
    is_at_end,
    is_complete,
    judge,
    name_obstacle,
    was_stopped,
)
from strandline_operator.decide.attempts.losses import list_new_losses
from strandline_operator.decide.attempts.observations import record_observations
from strandline_operator.decide.attempts.queueing import find_queue_obstacle, was_suspended
from strandline_operator.decide.attempts.silence import find_silence
from strandline_operator.decide.attempts.stop import find_next_deadline, find_overrun, find_stop
from strandline_operator.decide.conditions import Truth, set_condition
from strandline_operator.decide.obstacles.delays import find_delay, find_next_look
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.obstacles.room.shortages import find_worker_shortage
from strandline_operator.decide.scene import Scene, find_first, is_head
from strandline_operator.model.plan import Action, Delete, Resource

# Seconds to wait for KubeRay and garbage collection, which usually delete a cluster's pods within
# seconds of the RayJob. If neither is running, the remaining pods would block the next attempt.
_SWEEP = 60.0
_SUCCEEDED, _FROZEN = "Succeeded", "Frozen"
# Possible delays of a running attempt. The first match is reported.
_DELAYS = (find_queue_obstacle, find_delay, find_silence, find_worker_shortage, find_held_drain)


@dataclass(frozen=True, slots=True)
class AttemptStep:
    """Result of a pass over an attempt.

    Attributes:
        status: new status of the attempt.
        actions: actions to carry out.
        wake_at: latest time of the next pass, in seconds since the epoch, or None if no time is
            set.
        block: obstacle to report, or None.
    """

    status: AttemptStatus
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    block: Block | None = None


def _hold_nothing(_: AttemptStatus) -> float | None:
    return None


def follow(
    scene: Scene,
    stop: Evidence | None,
    find_hold: Callable[[AttemptStatus], float | None] = _hold_nothing,
) -> AttemptStep:
    """Decide the next step of an attempt whose RayJob was created or rejected.

    Args:
        stop: the pipeline's reason for ending the attempt, or None if it may continue.
        find_hold: function that returns the time until which a failed attempt keeps its pods, or
            None.
    """
    scene = record_observations(scene)
    if scene.status.end_time is None:
        scene = _end_if_over(scene, name_obstacle(scene, stop))
    if scene.status.end_time is None:
        return _go_on(scene)
    scene = _note_hold(judge(scene), find_hold)
    return _hold(scene) if _is_held(scene) else _tear_down(scene)


def _note_hold(scene: Scene, find_hold: Callable[[AttemptStatus], float | None]) -> Scene:
    """Record until when the pods are kept for inspection, or that the hold ended early."""
    end_time, held_until = scene.status.end_time, scene.status.held_until
    # Wait for late evidence: the cause may still change to one that allows a retry.
    if end_time is None or scene.now < end_time + scene.limits.settle:
        return scene
    until = find_hold(scene.status) if _can_be_held(scene) else None
    # Skip an expired hold, because recording it would only write the status for nothing.
    if until is not None and until > scene.now:
        return scene.with_status(evolve(scene.status, held_until=until))
    # The hold ends early, so start the teardown period now. Otherwise, the period would already be
    # over, and the operator would force-delete the pods.
    is_cut_short = held_until is not None and held_until > scene.now
    if not is_cut_short:
        return scene
    return scene.with_status(evolve(scene.status, held_until=scene.now))


def _can_be_held(scene: Scene) -> bool:
    """Return True if the head is still running, so that a person can inspect it."""
    # A stopped attempt is not a failure to inspect, and deleting a RayJob deletes its pods.
    if was_stopped(scene.status) or scene.rayjob is None or scene.rayjob.meta.is_deleting:
        return False
    heads = filter(is_head, scene.pods)
    return any(head.phase == "Running" and not head.meta.is_deleting for head in heads)


def _is_held(scene: Scene) -> bool:
    until = scene.status.held_until
    return until is not None and until > scene.now


def _hold(scene: Scene) -> AttemptStep:
    """Keep the pods of a failed attempt for inspection."""
    status = _describe(scene.with_status(evolve(scene.status, phase=AttemptPhase.HELD)))
    return AttemptStep(status, wake_at=scene.status.held_until)


def _end_if_over(scene: Scene, stop: Evidence | None) -> Scene:
    """End an attempt that was stopped, failed, completed, or exceeded a limit."""
    reason = _find_reason(scene, stop)
    if reason is not None:
        return end(scene, [reason])
    # Count incidents only now: a loss that ends the attempt is the cause of the end, not an
    # incident.
    scene = _count_incidents(scene)
    return end(scene, []) if is_complete(scene) else scene


def _find_reason(scene: Scene, stop: Evidence | None) -> Evidence | None:
    """Return the reason for ending the attempt, or None if it completed or continues."""
    # If the driver completed, a stop or a deadline counts only if it came before the driver's end.
    if is_complete(scene):
        limit = stop or find_overrun(scene)
        return limit if limit is not None and has_ended_after(scene, limit) else None
    failure = find_end(scene)
    # A stopped driver dies in ways that look like failures, so the stop takes precedence, unless
    # the driver provably ended before.
    if stop is not None and not (failure is not None and has_ended_before(scene, stop)):
        return stop
    return failure or find_stop(scene)


def _go_on(scene: Scene) -> AttemptStep:
    """Keep a running attempt unchanged, and report its delay."""
    delay = find_first(_DELAYS, scene)
    wakes = (find_next_deadline(scene), find_next_look(scene))
    wake_at = min((time for time in wakes if time is not None), default=None)
    return AttemptStep(_describe(scene, delay), wake_at=wake_at, block=delay)


def _count_incidents(scene: Scene) -> Scene:
    """Add the workers that were lost in this pass without ending the attempt to the incidents."""
    lost = list_new_losses(scene.attempt.status, scene.status)
    incidents = scene.status.incidents + len(lost)
    return scene.with_status(evolve(scene.status, incidents=incidents))


def _tear_down(scene: Scene) -> AttemptStep:
    """Delete remaining objects when no more evidence is expected. Freeze once all are gone."""
    end_time, now, limits = _find_release(scene.status), scene.now, scene.limits
    assert end_time is not None  # callers pass only ended attempts
    settled, reported_by = end_time + limits.settle, end_time + limits.outcome
    is_stopped = was_stopped(scene.status)
    # Wait for the driver's report, because the teardown would kill the driver before it reports.
    waits = not is_stopped and _may_explain(scene)
    due = reported_by if waits else settled
    # Tear down immediately if the attempt was stopped, because its cause is already final, or
    # suspended, because a queue can resume the RayJob at any moment while old pods still terminate.
    is_urgent = is_stopped or was_suspended(scene.status)
    actions = tuple(_remove(scene, end_time)) if is_urgent or now >= due else ()
    # Wait until `settled`: an out-of-memory kill may be reported seconds after the pods are gone.
    if scene.is_gone and now >= settled:
        phase = AttemptPhase.FAILED if scene.status.cause else AttemptPhase.SUCCEEDED
        status = evolve(scene.status, is_frozen=True, phase=phase)
        return AttemptStep(_describe(scene.with_status(status)))
    is_draining = is_stopped and scene.pods
    phase = AttemptPhase.DRAINING if is_draining else AttemptPhase.TEARING_DOWN
    scene = scene.with_status(evolve(scene.status, phase=phase))
    # A watch reports pods that terminate. The timer covers pods that do not.
    pause = min(max(limits.settle, (now - end_time) / 4), limits.resync)
    wake = min((time for time in (settled, due) if time > now), default=now + pause)
    return AttemptStep(_describe(scene), actions, wake, _find_overdue(scene))


def _find_release(status: AttemptStatus) -> float | None:
    """Return the start of the teardown: the end of the attempt, or of its hold."""
    end_time, held_until = status.end_time, status.held_until
    return end_time if end_time is None or held_until is None else max(end_time, held_until)


def _find_overdue(scene: Scene) -> Block | None:
    """Report pods of an ended attempt that do not terminate, or that may still run."""
    # The pods of a node that stopped responding are never deleted, so report the node immediately.
    if scene.wait:
        return Block(Reason.NODE_NOT_ANSWERING, f"The attempt {scene.wait}.")
    released = _find_release(scene.status)
    # Remaining pods are normal within the teardown period, so do not warn.
    if released is None or scene.now <= released + scene.limits.teardown:
        return None
    remains = [f"pod {pod.meta.name}" for pod in scene.pods[:3]]
    remains += [f"RayCluster {cluster.meta.name}" for cluster in scene.clusters]
    remains += [f"RayJob {scene.rayjob_name} with the finalizer of KubeRay"] if scene.rayjob else []
    return Block(Reason.TEARDOWN_OVERDUE, f"Not deleted yet: {', '.join(remains)}.")


def _remove(scene: Scene, end_time: float) -> Iterator[Action]:
    """Delete the remaining objects of an attempt that ended at the given time."""
    rayjob, limits = scene.rayjob, scene.limits
    # Let KubeRay delete the cluster and the pods, in an order in which a driver can save its work.
    if rayjob is not None and not rayjob.meta.is_deleting:
        yield Delete(Resource.RAYJOB, rayjob.meta.name, rayjob.meta.uid)
    # Force deletion only if configured: a force-deleted pod on an unresponsive node may still run.
    is_forced = limits.force_teardown and scene.now > end_time + limits.teardown
    is_let_down = (rayjob is None or rayjob.meta.is_deleting) and scene.now > end_time + _SWEEP
    if not (is_forced or is_let_down):
        return  # KubeRay is still deleting the objects, and lets pods save their work first
    for cluster in scene.clusters:
        if not cluster.meta.is_deleting:
            yield Delete(Resource.RAYCLUSTER, cluster.meta.name, cluster.meta.uid)
    for pod in scene.pods:
        # Force the deletion even if the pod is already terminating, because that ends the grace
        # period.
        if is_forced or not pod.meta.is_deleting:
            grace = 0 if is_forced else None
            yield Delete(Resource.POD, pod.meta.name, pod.meta.uid, grace=grace)


def _may_explain(scene: Scene) -> bool:
    """Return True if the driver has not reported its outcome yet but still can."""
    can_speak = any(is_head(pod) and not pod.is_gone for pod in scene.pods)
    return scene.status.outcome is None and can_speak and not _is_cut(scene)


def _is_cut(scene: Scene) -> bool:
    """Return True if only the operator ended the attempt: driver and head still run."""
    rayjob, heads = scene.rayjob, [pod for pod in scene.all_pods if is_head(pod)]
    # In these cases, KubeRay has stopped the driver, or the driver has ended and can still report.
    if rayjob is None or rayjob.meta.is_deleting or is_at_end(scene):
        return False
    return not any(pod.is_gone or pod.meta.is_deleting or pod.disruption for pod in heads)


def _describe(scene: Scene, delay: Block | None = None) -> AttemptStatus:
    """Return the status with the phase and conditions that follow from its other fields."""
    status, generation = scene.status, scene.attempt.meta.generation
    phase = status.phase if status.end_time is not None else _name_phase(scene)
    truth, reason, message = _sum_up(status, phase)
    # Report the delay, which is more specific than the phase.
    if delay is not None:
        reason, message = delay.reason, delay.message
    # Name the unresponsive node. Otherwise, the teardown would seem to hang without a reason.
    if not status.is_frozen and status.end_time is not None and scene.wait:
        message = f"{message}; {scene.wait}"
    conditions = set_condition(
        status.conditions, _SUCCEEDED, truth, reason, message, scene.now, generation=generation
    )
    if status.is_frozen:
        conditions = set_condition(
            conditions,
            _FROZEN,
            "True",
            Reason.EVIDENCE_COMPLETE,
            "the pods are gone",
            scene.now,
            generation=generation,
        )
    return evolve(status, phase=phase, conditions=conditions, observed_generation=generation)


def _name_phase(scene: Scene) -> AttemptPhase:
    # Without a RayJob, no pod of the attempt can run.
    if scene.rayjob is None and not scene.is_launched:
        return AttemptPhase.PENDING
    # Time in a queue is not a slow start, and does not count toward a deadline.
    if scene.is_queued:
        return AttemptPhase.QUEUED
    is_begun = scene.status.running_time is not None
    return AttemptPhase.RUNNING if is_begun else AttemptPhase.STARTING


def _sum_up(status: AttemptStatus, phase: AttemptPhase) -> tuple[Truth, str, str]:
    """Return the status, reason, and message of the `Succeeded` condition."""
    if status.end_time is None:
        return "Unknown", phase.value, f"the attempt is {phase.value.lower()}"
    # Keep the condition `Unknown` until the pods are gone: the cause may still change, and tools
    # treat True and False as final.
    if status.held_until is not None and phase is AttemptPhase.HELD:
        until = format_time(round(status.held_until))
        return "Unknown", Reason.HELD, f"{status.message}; its pods are kept until {until}"
    # The cause may still change until the attempt is frozen.
    if not status.is_frozen:
        return "Unknown", phase.value, status.message
    if status.cause is None:
        return "True", Reason.COMPLETED, status.message
    return "False", status.cause.value, status.message
