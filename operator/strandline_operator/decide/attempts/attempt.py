"""What becomes of one attempt: launched, watched, ended, torn down, and in the end frozen.

An attempt ends for us as soon as somebody who knows says so: its driver, its RayJob, or we
ourselves. From then on its cause may still get better while late evidence comes in; it is final
when nothing is left that could run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from strandline_api.objects.attempt import (
    AttemptOutcome,
    AttemptStatus,
    EvidenceRecord,
    ObjectReference,
)
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.evidence import PRECEDENCE, Evidence, name_cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import AttemptPhase
from strandline_api.status.pipeline_status import Counts
from strandline_operator.decide.attempts.silence import find_silence
from strandline_operator.decide.attempts.stop import find_losses, find_next_deadline, find_stop
from strandline_operator.decide.conditions import describe_attempt
from strandline_operator.decide.evidence import (
    TERMINAL,
    explain_by_head,
    find_end,
    find_image_problem,
    find_outcome,
    find_pod_evidence,
    find_rayjob_evidence,
    is_by_teardown,
    is_complete,
    place_kill,
    read_late_outcome,
    read_progress,
    weigh,
)
from strandline_operator.decide.obstacles.delays import find_delay, find_next_look
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Action, Delete, Resource

# Ends that say enough; what befell a worker on the way did not bring them about.
_DELIBERATE = frozenset(set(ExitCode) - {ExitCode.APPLICATION_ERROR})
# KubeRay and garbage collection delete a cluster's pods within seconds of its RayJob; where neither
# is at work any more, somebody has to.
_SWEEP = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """An attempt's new status, what to do, when to look again at the latest, what delays it."""

    status: AttemptStatus
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    delay: Block | None = None


def follow(
    scene: Scene, spec: PipelineSpec, limits: Limits, now: float, stop: Evidence | None
) -> Step:
    """The next step of an attempt whose RayJob was made, or has been asked for to no avail.

    Args:
        stop: why whoever decides about the pipeline wants it to end; None: it may go on.
    """
    status = _note(scene, scene.attempt.status, now)
    if status.end_time is None:
        reason = stop or find_end(scene, status) or find_stop(scene, status, spec, limits, now)
        if reason is None and not is_complete(scene, status):
            status = _count_incidents(scene, status)
            wakes = (find_next_deadline(status, spec, limits), find_next_look(scene, now))
            wake_at = min((one for one in wakes if one is not None), default=None)
            delay = find_delay(scene, now) or find_silence(scene, status, spec, limits)
            return Step(describe_attempt(status, scene, now, delay), wake_at=wake_at, delay=delay)
        if reason is None:
            status = _count_incidents(scene, status)
        status = _end(status, [reason] if reason else [], now)
    status = _judge(scene, status, limits, now)
    return _tear_down(scene, status, limits, now)


def _note(scene: Scene, status: AttemptStatus, now: float) -> AttemptStatus:
    """Take down what can be seen at any time."""
    changes: dict[str, Any] = {}
    rayjob = scene.rayjob
    if rayjob is not None:
        changes["ray_job"] = ObjectReference(name=rayjob.meta.name, uid=rayjob.meta.uid)
        changes["start_time"] = status.start_time or rayjob.meta.created or now
        if status.phase is AttemptPhase.QUEUED and not scene.is_queued:
            changes["start_time"] = now  # the time in a queue is free
        changes["ray_cluster"] = rayjob.cluster or status.ray_cluster
        changes["job_start_time"] = status.job_start_time or rayjob.started
        if rayjob.deployment == "Running" and rayjob.job:
            changes["running_time"] = status.running_time or now
    driver = scene.driver
    if driver is not None:
        changes["progress"] = driver.progress or status.progress
        changes["latest"] = driver.latest or status.latest
        changes["log_tail"] = driver.log_tail or status.log_tail
        if driver.progress is not None:
            changes["running_time"] = status.running_time or now
    outcome = _find_outcome(scene)
    if outcome is not None:
        changes["outcome"] = _spell_outcome(outcome)
        changes["latest"] = outcome.latest or changes.get("latest", status.latest)
        heard = (one for one in outcome.evidence if _is_news(scene, status, one))
        placed = (place_kill(one, scene.all_pods) for one in heard)
        changes["evidence"] = _merge(status, placed, now)
    noted = status.model_copy(update=changes)
    last = read_progress(noted, status.end_time or now)
    return noted.model_copy(update={"progress": last or noted.progress})


def _is_news(scene: Scene, status: AttemptStatus, seen: Evidence) -> bool:
    """Whether it is to be taken down; the pod that it was placed on may be forgotten meanwhile."""
    said = (seen.cause, seen.source, EvidenceRecord.of(seen).message)
    is_known = any((one.cause, one.source, one.message) == said for one in status.evidence)
    is_late = status.end_time is not None and is_by_teardown(scene, status, seen.cause)
    return not is_known and not is_late


def _count_incidents(scene: Scene, status: AttemptStatus) -> AttemptStatus:
    """With the workers that were lost up to now and did not end the attempt."""
    incidents = max(status.incidents, len(find_losses(scene)))
    return status.model_copy(update={"incidents": incidents})


def _find_outcome(scene: Scene) -> DriverOutcome | None:
    """The driver's word, from the first that has it."""
    driver, rayjob = scene.driver, scene.rayjob
    candidates = (
        driver.outcome if driver else None,
        find_outcome_line(rayjob.message) if rayjob else None,
        driver.log_outcome if driver else None,
        *(find_outcome(pod) for pod in scene.all_pods),
    )
    return next((one for one in candidates if one is not None), None)


def _spell_outcome(outcome: DriverOutcome) -> AttemptOutcome:
    return AttemptOutcome(
        exit_code=outcome.exit_code,
        outcome=outcome.outcome,
        message=outcome.message,
        sources=Counts.parse(outcome.sources.model_dump(by_alias=True)),
        remaining=outcome.remaining,
    )


def _end(status: AttemptStatus, evidence: Iterable[Evidence], now: float) -> AttemptStatus:
    return status.model_copy(update={"end_time": now, "evidence": _merge(status, evidence, now)})


def _merge(
    status: AttemptStatus, evidence: Iterable[Evidence], now: float
) -> tuple[EvidenceRecord, ...]:
    """The evidence with what is new; of a pod's container one sight of a cause is enough."""
    records = list(status.evidence)
    known = {_identify(record.evidence) for record in records}
    for seen in evidence:
        if _identify(seen) not in known:
            known.add(_identify(seen))
            records.append(EvidenceRecord.of(seen, now))
    return tuple(records)


def _identify(seen: Evidence) -> tuple[object, ...]:
    details = seen.details
    return (seen.cause, seen.source, details.get("pod"), details.get("container"))


def _judge(scene: Scene, status: AttemptStatus, limits: Limits, now: float) -> AttemptStatus:
    """Take in what pods and RayJob say of an end, and name the cause as it now looks."""
    known = scene.attempt.status
    # Once its RayJob is gone, nothing else tells that it had completed.
    has_completed = known.end_time is not None and known.cause is None
    if (has_completed or is_complete(scene, status)) and not _was_stopped(status):
        return status.model_copy(update={"cause": None, "message": "completed"})
    assert status.end_time is not None  # it has ended
    seen: list[Evidence] = []
    if scene.rayjob is not None and scene.rayjob.deployment in TERMINAL:
        seen += find_rayjob_evidence(scene.rayjob)
    seen += filter(None, [read_late_outcome(scene, status), explain_by_head(scene, status)])
    for pod in scene.all_pods:
        seen += _pick(pod, status, limits, now)
    records = sorted(_merge(status, seen, now), key=lambda one: PRECEDENCE.index(one.cause))
    status = status.model_copy(update={"evidence": tuple(records)})
    named = name_cause(weigh(status))
    return status.model_copy(update={"cause": named.cause, "message": named.message})


def _was_stopped(status: AttemptStatus) -> bool:
    ours = {Cause.USER_CANCELLED, Cause.DEADLINE_EXCEEDED}
    return any(record.cause in ours or record.source == "suspend" for record in status.evidence)


def _pick(pod: Pod, status: AttemptStatus, limits: Limits, now: float) -> Iterable[Evidence]:
    """Of what a pod says, what can have to do with the end."""
    assert status.end_time is not None  # it has ended
    is_fresh = now <= status.end_time + limits.settle
    code = status.outcome.exit_code if status.outcome else None
    image = find_image_problem(pod)
    if image is not None and status.running_time is None:
        yield image
    for seen in find_pod_evidence(pod):
        if seen.cause is Cause.OOM_KILLED:
            # containerd shows it late, at the teardown even; but it is not what ended a driver
            # that says why it ended.
            if code not in _DELIBERATE:
                yield seen
        elif role_of(pod) == "worker":
            if is_fresh and code not in _DELIBERATE:
                yield seen
        elif is_fresh and (is_head(pod) or seen.cause is Cause.SUBMISSION_FAILED):
            yield seen


def _tear_down(scene: Scene, status: AttemptStatus, limits: Limits, now: float) -> Step:
    """Remove what is left, once the evidence is in; freeze the cause when nothing is."""
    ended = status.end_time
    assert ended is not None  # it has
    settled, heard_by = ended + limits.settle, ended + limits.outcome
    is_stopped = _was_stopped(status)
    waits = status.outcome is None and not is_stopped and _may_speak(scene) and not _is_cut(scene)
    due = heard_by if waits else settled
    is_due = is_stopped or now >= due
    actions = tuple(_remove(scene, ended, limits, now)) if is_due else ()
    if scene.is_gone and now >= settled:
        phase = AttemptPhase.FAILED if status.cause else AttemptPhase.SUCCEEDED
        status = status.model_copy(update={"is_frozen": True, "phase": phase})
        return Step(describe_attempt(status, scene, now))
    phase = AttemptPhase.DRAINING if is_stopped and scene.pods else AttemptPhase.TEARING_DOWN
    status = status.model_copy(update={"phase": phase})
    # Pods that go are told of by the watch; this is for those that stay.
    pause = min(max(limits.settle, (now - ended) / 4), limits.resync)
    wake = min((time for time in (settled, due) if time > now), default=now + pause)
    return Step(describe_attempt(status, scene, now), actions, wake)


def _remove(scene: Scene, ended: float, limits: Limits, now: float) -> Iterator[Action]:
    """Delete what is left of an attempt that ended at that time."""
    rayjob = scene.rayjob
    if rayjob is not None and not rayjob.meta.is_deleting:
        yield Delete(Resource.RAYJOB, rayjob.meta.name, rayjob.meta.uid)
    is_forced = limits.force_teardown and now > ended + limits.teardown
    is_let_down = (rayjob is None or rayjob.meta.is_deleting) and now > ended + _SWEEP
    if is_forced or is_let_down:
        for cluster in scene.clusters:
            if not cluster.meta.is_deleting:
                yield Delete(Resource.RAYCLUSTER, cluster.meta.name, cluster.meta.uid)
        for pod in scene.pods:
            if is_forced or not pod.meta.is_deleting:
                grace = 0 if is_forced else None
                yield Delete(Resource.POD, pod.meta.name, pod.meta.uid, grace=grace)


def _is_cut(scene: Scene) -> bool:
    """Whether only we know that the attempt is over: nobody has told its driver, nor its head."""
    rayjob, heads = scene.rayjob, [pod for pod in scene.all_pods if is_head(pod)]
    if rayjob is None or rayjob.meta.is_deleting or rayjob.deployment in TERMINAL:
        return False
    return not any(pod.is_gone or pod.meta.is_deleting or pod.disruption for pod in heads)


def _may_speak(scene: Scene) -> bool:
    """Whether the driver's own word can still be had."""
    return any(is_head(pod) and not pod.is_gone for pod in scene.pods)
