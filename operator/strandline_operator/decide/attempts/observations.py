"""Records a pass's observations of an attempt in its status: start, driver, capacity, and outcome.

This module must not depend on what follows from an observation, such as the end of the attempt.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import (
    AttemptOutcome,
    AttemptStatus,
    EvidenceRecord,
    PipelineReference,
)
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import AttemptPhase
from strandline_api.status.pipeline_status import ProgressCounts
from strandline_api.status.usage.work import LostWork
from strandline_operator.decide.attempts.ending import is_by_teardown, merge, read_progress
from strandline_operator.decide.attempts.fallback import note_lost_heads
from strandline_operator.decide.attempts.losses import note_losses
from strandline_operator.decide.clock_steps import LEAST_STEP
from strandline_operator.decide.evidence.pods import find_outcome, locate_kill
from strandline_operator.decide.obstacles.room.shortages import find_waits
from strandline_operator.decide.obstacles.volumes.attachment import is_let_go
from strandline_operator.decide.scene import Scene
from strandline_operator.model.objects import RayJob


def record_observations(scene: Scene) -> Scene:
    """Record the observations of a pass in the status of a running or ended attempt."""
    scene = _note_room(_note_driver(_note_rayjob(scene)))
    scene = note_lost_heads(note_losses(scene))
    outcome = _find_outcome(scene)
    if outcome is not None:
        scene = _note_outcome(scene, outcome)
    last = read_progress(scene.status, scene.status.end_time or scene.now)
    return scene.with_status(evolve(scene.status, progress=last or scene.status.progress))


def _note_rayjob(scene: Scene) -> Scene:
    rayjob, status = scene.rayjob, scene.status
    if rayjob is None:
        return scene
    start_time = status.start_time or _date_rayjob(rayjob, scene.now)
    if status.phase is AttemptPhase.QUEUED and not scene.is_queued:
        start_time = scene.now  # time in a queue does not count toward deadlines
    # Time in which a lost node held the volume does not count toward deadlines either.
    if is_let_go(scene):
        start_time = scene.now
    is_begun = rayjob.deployment == "Running" and rayjob.job
    return scene.with_status(
        evolve(
            status,
            ray_job=PipelineReference(name=rayjob.meta.name, uid=rayjob.meta.uid),
            start_time=start_time,
            ray_cluster=rayjob.cluster or status.ray_cluster,
            job_start_time=status.job_start_time or rayjob.started,
            running_time=status.running_time or (scene.now if is_begun else None),
        )
    )


def _date_rayjob(rayjob: RayJob, now: float) -> float:
    """Return the creation time of a newly observed RayJob, by the operator's clock.

    The RayJob's own timestamp comes from the API server's clock, which may differ, but all timers
    use the operator's clock.
    """
    created = rayjob.meta.created
    return now if abs(now - created) > LEAST_STEP else created


def _note_room(scene: Scene) -> Scene:
    """Record since when pods have lacked capacity. This time does not count as a slow start."""
    status = scene.status
    # An ended attempt keeps the record of its pods' wait.
    if status.end_time is not None:
        return scene
    waits = find_waits(scene)
    is_over = bool(status.no_room_since) and not waits and status.running_time is None
    # An explicit start deadline includes the wait for capacity.
    is_free = is_over and scene.spec.deadlines.pre_running_seconds is None
    start_time = _skip_wait(status, scene.now) if is_free else status.start_time
    return scene.with_status(evolve(status, no_room_since=waits, start_time=start_time))


def _skip_wait(status: AttemptStatus, now: float) -> float:
    """Return an attempt's start time, moved forward by a finished wait for capacity.

    Time during which pods have nodes counts. Otherwise, a start could take forever if nodes come
    and go.
    """
    waited = now - min(status.no_room_since.values())
    return min(now, (status.start_time or now) + waited)


def _note_driver(scene: Scene) -> Scene:
    driver, status = scene.driver, scene.status
    if driver is None:
        return scene
    # A driver that responds is running, even if KubeRay reports that only later.
    is_reported = driver.progress is not None
    return scene.with_status(
        evolve(
            status,
            progress=driver.progress or status.progress,
            latest=driver.latest or status.latest,
            log_file=driver.log_file or status.log_file,
            log_tail=driver.log_tail or status.log_tail,
            running_time=status.running_time or (scene.now if is_reported else None),
        )
    )


def _note_outcome(scene: Scene, outcome: DriverOutcome) -> Scene:
    reported = (item for item in outcome.evidence if _is_new(scene, item))
    placed = (locate_kill(item, scene.all_pods) for item in reported)
    return scene.with_status(
        evolve(
            scene.status,
            outcome=_convert_outcome(outcome),
            latest=outcome.latest or scene.status.latest,
            log_file=outcome.log_file or scene.status.log_file,
            evidence=merge(scene, placed),
        )
    )


def _is_new(scene: Scene, item: Evidence) -> bool:
    """Return True if an item of the driver's outcome is new evidence.

    Compare without details about the pod, because the operator may have forgotten the pod since.
    """
    status = scene.attempt.status
    outcome = (item.cause, item.source, EvidenceRecord.from_evidence(item).message)
    is_known = any(
        (record.cause, record.source, record.message) == outcome for record in status.evidence
    )
    # If the operator's own deletion interrupted the driver, the driver's report explains no end.
    is_late = status.end_time is not None and is_by_teardown(scene, item.cause)
    return not is_known and not is_late


def _find_outcome(scene: Scene) -> DriverOutcome | None:
    """Return the driver's outcome from the first source that has one."""
    driver, rayjob = scene.driver, scene.rayjob
    candidates = (
        driver.outcome if driver else None,
        find_outcome_line(rayjob.message) if rayjob else None,
        driver.log_outcome if driver else None,
        *(find_outcome(pod) for pod in scene.all_pods),
    )
    return next((candidate for candidate in candidates if candidate is not None), None)


def _convert_outcome(outcome: DriverOutcome) -> AttemptOutcome:
    return AttemptOutcome(
        exit_code=outcome.exit_code,
        outcome=outcome.outcome,
        message=outcome.message,
        sources=ProgressCounts.parse(outcome.to_json()["sources"]),
        remaining=outcome.remaining,
        work_seconds=outcome.work_seconds or None,
        work_lost=LostWork(**outcome.work_lost.to_json()) if outcome.work_seconds else None,
        lineage=outcome.lineage or None,
    )
