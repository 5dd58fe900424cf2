"""Determines whether an attempt has ended, the evidence of the end, and the resulting cause.

Until no pod can run, every pass determines the cause again, because the best evidence may arrive
late. This module must not depend on what follows the end of an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import MAX_EVIDENCE, AttemptStatus, EvidenceRecord
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import PRECEDENCE, Evidence, name_cause, read_exit
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import HEAD_CONTAINER
from strandline_api.status.pipeline_status import Progress
from strandline_operator.decide.attempts.head_fate import explain_by_head
from strandline_operator.decide.attempts.losses import (
    DISRUPTIONS,
    find_newest_head,
    is_nameless,
    is_of,
    is_recent,
    is_vaguer,
    list_losses,
    may_explain,
)
from strandline_operator.decide.attempts.queueing import explain_suspension
from strandline_operator.decide.evidence.pods import (
    blame_taking,
    find_foreign_kills,
    find_image_problem,
    find_reserved_name,
)
from strandline_operator.decide.evidence.rayjobs import (
    ENDED_JOBS,
    TERMINAL,
    find_rayjob_evidence,
)
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import SUBMITTER, Pod
from strandline_operator.render.order import Role

# Causes of drivers that a teardown stopped, whether by the operator or by someone else.
_BY_TEARDOWN = frozenset({Cause.INTERRUPTED, Cause.KILLED})
_DELETED = "Deleted"
_OWN_LOSSES = DISRUPTIONS | {Cause.OOM_KILLED}
# Source of evidence that the operator ended an attempt that lacked capacity, so that the next
# attempt uses other nodes.
NO_ROOM = "no-room"
# Evidence sources of deliberate ends, which do not count as failures of the attempt.
_ON_PURPOSE = frozenset({"suspend", NO_ROOM})
# Exit codes that explain the end. Losses of workers are then not the cause.
_DELIBERATE = frozenset(set(ExitCode) - {ExitCode.APPLICATION_ERROR})
_OWN_ENDS = _DELIBERATE - {ExitCode.INTERRUPTED}


def end(scene: Scene, evidence: Iterable[Evidence]) -> Scene:
    """End the attempt now, with evidence of the reasons, or without evidence if it completed."""
    status = evolve(
        scene.status,
        end_time=scene.now,
        driver_end_time=_date_driver_end(scene),
        evidence=merge(scene, evidence),
    )
    return scene.with_status(status)


def name_obstacle(scene: Scene, stop: Evidence | None) -> Evidence | None:
    """Add the obstacle that delayed the driver's start, if any, to a stop's message."""
    obstacle = scene.attempt.status.message
    # After the stop, no other record shows the obstacle, such as the quota or webhook that blocked
    # the start.
    if stop is None or not obstacle or scene.status.running_time is not None:
        return stop
    return replace(stop, message=f"{stop.message}; the driver had not started: {obstacle}")


def _date_driver_end(scene: Scene) -> float | None:
    """Return when the driver stopped, as reported by pod or RayJob, or None if neither did."""
    head = find_newest_head(scene)
    ends = [
        container.ends[0].time
        for container in (head.containers if head is not None else ())
        if container.name == HEAD_CONTAINER and container.ends and not container.is_running
    ]
    reported = [*ends, scene.rayjob.ended if scene.rayjob is not None else None]
    times = [time for time in reported if time is not None and time <= scene.now]
    # The driver was alive when it last reported progress, even if the node's clock disagrees.
    progress = scene.attempt.status.progress
    answered = progress.time if progress is not None else None
    return max(min(times), answered or 0.0) if times else None


def merge(scene: Scene, evidence: Iterable[Evidence]) -> tuple[EvidenceRecord, ...]:
    """Return the evidence including new items, most conclusive first.

    Keep one record per cause, source, pod, and container.
    """
    records = list(scene.status.evidence)
    indices = {_identify(record.evidence): index for index, record in enumerate(records)}
    for item in evidence:
        index = indices.get(_identify(item))
        # Add only new items: every pass observes the same end again, and the list is bounded.
        if index is None:
            indices[_identify(item)] = len(records)
            records.append(EvidenceRecord.from_evidence(item, scene.now))
        # Replace a vague record: the origin of a disruption, or a queue's reason, may become known
        # later.
        elif is_vaguer(records[index].evidence, item):
            # Keep the time of the first observation.
            former = records[index].time
            records[index] = evolve(EvidenceRecord.from_evidence(item, scene.now), time=former)
    # Sort worker records last before the list is truncated. Many workers may be lost, but a record
    # about the head explains the end at least as well.
    records.sort(key=lambda record: (is_of(record, Role.WORKER), _rank(record)))
    return tuple(sorted(records[:MAX_EVIDENCE], key=_rank))


def _identify(item: Evidence) -> tuple[object, ...]:
    details = item.details
    pod = details.get("podUid") or details.get("pod")
    return (item.cause, item.source, pod, details.get("container"))


def judge(scene: Scene) -> Scene:
    """Collect the evidence from pods and the RayJob, and update the cause."""
    if _has_completed(scene):
        # The driver completed before the stop, so the stop is not the reason.
        evidence = tuple(each for each in scene.status.evidence if not _is_stop(each))
        status = evolve(scene.status, cause=None, message="completed", evidence=evidence)
        return scene.with_status(status)
    scene = scene.with_status(evolve(scene.status, evidence=merge(scene, _list_records(scene))))
    # Look at what happened to the head only if nothing else explains the end.
    fate = filter(None, [explain_by_head(scene)])
    status = evolve(scene.status, evidence=merge(scene, fate))
    cause = name_cause(weigh(status))
    return scene.with_status(evolve(status, cause=cause.cause, message=cause.message))


def _rank(record: EvidenceRecord) -> int:
    return PRECEDENCE.index(record.cause)


def _list_records(scene: Scene) -> Iterator[Evidence]:
    """Yield the current evidence of an end from the RayJob, the driver, and pods."""
    # While a RayJob has not ended, its messages describe other problems.
    if scene.rayjob is not None and is_at_end(scene):
        yield from find_rayjob_evidence(scene.rayjob)
    yield from explain_suspension(scene)
    yield from filter(None, [read_late_outcome(scene)])
    yield from _pick_losses(scene)
    for pod in scene.all_pods:
        yield from _pick(scene, pod)


def _has_completed(scene: Scene) -> bool:
    """Return whether the driver completed before any stop took effect."""
    before, stops = scene.attempt.status, list(filter(_is_stop, scene.status.evidence))
    # Trust the status, because no other object shows that the driver completed once the RayJob is
    # gone.
    if not stops:
        return (before.end_time is not None and before.cause is None) or is_complete(scene)
    # A driver that exits with 0 after a stop may have skipped remaining work.
    return is_complete(scene) and all(has_ended_before(scene, each.evidence) for each in stops)


def has_ended_before(scene: Scene, stop: Evidence) -> bool:
    """Return True if the driver provably ended at or before the time of a stop."""
    ended = scene.status.driver_end_time or _date_driver_end(scene)
    return ended is not None and stop.time is not None and ended <= stop.time


def has_ended_after(scene: Scene, stop: Evidence) -> bool:
    """Return True if the driver provably ended after the time of a stop."""
    ended = scene.status.driver_end_time or _date_driver_end(scene)
    return ended is not None and stop.time is not None and ended > stop.time


def was_stopped(status: AttemptStatus) -> bool:
    """Return True if a user, a deadline, or the operator ended the attempt deliberately."""
    return any(map(_is_stop, status.evidence))


def _is_stop(record: EvidenceRecord) -> bool:
    ours = {Cause.USER_CANCELLED, Cause.DEADLINE_EXCEEDED}
    return record.cause in ours or record.source in _ON_PURPOSE


def _pick_losses(scene: Scene) -> Iterator[Evidence]:
    """Yield the pod losses that may have caused the end."""
    status = scene.status
    code = None if status.outcome is None else status.outcome.exit_code
    for record in list_losses(scene):
        item = record.evidence
        # If the driver reported the reason for its end, that is more reliable than a lost worker.
        is_explained = code in _DELIBERATE and (
            item.cause is Cause.OOM_KILLED or is_of(record, Role.WORKER)
        )
        is_others = is_of(record, Role.SUBMITTER) and not _is_of_submitter(status, item)
        # Only `explain_by_head` uses the weak evidence of a head that is gone for an unknown
        # reason.
        if not (is_explained or is_others or is_nameless(record)) and may_explain(scene, record):
            yield item


def _pick(scene: Scene, pod: Pod) -> Iterator[Evidence]:
    """Yield other evidence about a pod that may be related to the end."""
    image = find_image_problem(pod)
    # After the driver's start, only a worker that was added later can lack its image.
    if image is not None and scene.status.running_time is None:
        yield image
    # Later evidence about pods mostly results from the operator's own deletions.
    if not is_recent(scene):
        return
    reserved = find_reserved_name(pod) if is_head(pod) else None
    if reserved is not None:
        yield reserved
    yield from find_foreign_kills(pod)
    yield from _read_node(scene, pod)


def _is_of_submitter(status: AttemptStatus, item: Evidence) -> bool:
    """Return True if evidence about a submitter pod may explain the end of the attempt."""
    # If the driver reported its own end, the loss of its submitter did not stop it.
    return item.cause is Cause.SUBMISSION_FAILED or (
        item.cause in DISRUPTIONS and status.outcome is None
    )


def _read_node(scene: Scene, pod: Pod) -> Iterator[Evidence]:
    """Yield the disruption of the head's node, even if the head still exists.

    The driver's end is reported within a second, but the pod's disruption may be visible only half
    a minute later.
    """
    status = scene.status
    is_decided = status.outcome is not None and status.outcome.exit_code in _OWN_ENDS
    # A driver that reported its own reason would have ended on any node.
    if is_decided or not is_head(pod):
        return
    # If the pod itself has a record of the disruption, that record is more precise.
    if any(item.cause in DISRUPTIONS for item in scene.read_pod(pod)):
        return
    taker = scene.find_taker(pod)
    if taker is not None:
        yield blame_taking(pod, taker)


def find_end(scene: Scene) -> Evidence | None:
    """Return the reason why an attempt failed, or None if it is running or completed."""
    rayjob, outcome = scene.rayjob, read_outcome(scene.status)
    is_deleted = _is_deleted(scene)
    # Deleting the RayJob interrupts the driver, in which case the interruption is not the driver's
    # own reason.
    if outcome is not None and not (is_deleted and outcome.cause in _BY_TEARDOWN):
        return outcome
    # A later deletion of the RayJob does not turn a completed attempt into a failed one.
    if is_complete(scene):
        return None
    # An attempt can't continue without its RayJob, because KubeRay deletes its pods too.
    if is_deleted:
        message = "the RayJob was deleted, but not by the operator"
        return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": _DELETED})
    # Until the RayJob has ended, its messages describe a temporary state.
    if rayjob is None or not is_at_end(scene):
        return None
    # A newer KubeRay may end a RayJob for a reason that this operator does not recognize.
    return next(find_rayjob_evidence(rayjob), None) or Evidence(
        Cause.UNKNOWN, f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message}", "rayjob"
    )


def is_complete(scene: Scene) -> bool:
    """Return True if the driver completed, as reported by the driver or by KubeRay."""
    outcome = scene.status.outcome
    # Prefer the driver's own report: KubeRay may lose track of a job that ended successfully.
    if outcome is not None and outcome.exit_code is not None:
        return outcome.exit_code == 0
    return scene.rayjob is not None and scene.rayjob.job == "SUCCEEDED" and is_at_end(scene)


def is_at_end(scene: Scene) -> bool:
    """Return True if the RayJob has ended, or if only a sidecar keeps KubeRay from seeing its end.

    A sidecar in the submitter pod (service mesh, logging) may never exit. Then the submitter's Job
    never finishes, and Ray's own job status is final.
    """
    rayjob = scene.rayjob
    if rayjob is None:
        return False
    is_kept = rayjob.job in ENDED_JOBS and any(map(_is_kept, scene.pods))
    return is_kept or rayjob.deployment in TERMINAL


def _is_kept(pod: Pod) -> bool:
    """Return True if the submitter has ended while a sidecar in its pod still runs.

    Init containers, including restartable ones, end with the pod and do not count.
    """
    beside = (each for each in pod.containers if each.name != SUBMITTER and not each.is_init)
    is_ended = role_of(pod) == "submitter" and pod.submitter_end is not None
    return is_ended and any(each.is_running for each in beside)


def read_outcome(status: AttemptStatus) -> Evidence | None:
    """Return the reason that a failed driver reported, if any."""
    outcome = status.outcome
    exit_evidence = read_exit(outcome.exit_code) if outcome and outcome.exit_code else None
    if outcome is None or exit_evidence is None:
        return None
    return Evidence(
        exit_evidence.cause,
        outcome.message or exit_evidence.message,
        "outcome",
        exit_evidence.details,
    )


def read_late_outcome(scene: Scene) -> Evidence | None:
    """Return the driver's report as evidence, or None if the operator's teardown caused it."""
    outcome = read_outcome(scene.status)
    return None if outcome is None or is_by_teardown(scene, outcome.cause) else outcome


def is_by_teardown(scene: Scene, cause: Cause) -> bool:
    """Return True if the teardown of an ended attempt may have caused the driver's end."""
    rayjob = scene.rayjob
    is_before = rayjob is not None and not rayjob.meta.is_deleting
    # If nothing else explains the end, use the driver's report even if the teardown caused it.
    is_unexplained = all(record.cause is Cause.UNKNOWN for record in scene.status.evidence)
    return cause in _BY_TEARDOWN and not is_before and not is_unexplained


def read_progress(status: AttemptStatus, time: float | None) -> Progress | None:
    """Return the progress in the driver's final report, or None to keep earlier progress."""
    outcome = status.outcome
    # A killed driver sends no final report.
    if outcome is None or outcome.sources is None:
        return None
    if outcome.sources.total is None and status.progress is not None:
        return None  # the earlier progress has more details than an interrupted driver's report
    return evolve(Progress.parse({**outcome.sources.to_json()}), time=time)


def weigh(status: AttemptStatus) -> tuple[Evidence, ...]:
    """Return the evidence from which the cause is chosen.

    Drop records that are less likely causes: losses of workers if the head was lost, and deletion
    of the RayJob if the driver reported its own failure.
    """
    records = status.evidence
    if any(is_of(record, Role.HEAD) and record.cause in _OWN_LOSSES for record in records):
        records = tuple(record for record in records if not is_of(record, Role.WORKER))
    outcome = read_outcome(status)
    # An interrupted driver reports no reason of its own, in which case the deletion is the cause.
    if outcome is not None and outcome.cause not in _BY_TEARDOWN:
        records = tuple(each for each in records if each.details.get("reason") != _DELETED)
    return tuple(record.evidence for record in records)


def _is_deleted(scene: Scene) -> bool:
    """Return True if the RayJob was deleted while the attempt was running."""
    if scene.rayjob is not None:
        return scene.rayjob.meta.is_deleting
    # An API server that just started may not serve KubeRay's kinds yet, so remaining pods mean that
    # the RayJob may still exist.
    return scene.status.ray_job is not None and (scene.has_kuberay or not scene.pods)
