"""Determines how a queue affects an attempt: a wait, a suspension, or a permanent rejection."""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import SUSPENDED, Scene
from strandline_operator.integrations.schedulers import find_holder, list_stop_reasons
from strandline_operator.model.notices import QueueState, find_newest

_BARE = "was suspended while its driver ran"


def find_suspension(scene: Scene) -> Evidence | None:
    """Return evidence that a queue suspended the running attempt, which ends the attempt.

    The suspension has ended the driver, and KubeRay would start another driver in the same attempt.
    """
    rayjob = scene.rayjob
    # A queue may suspend a job any number of times before the driver starts.
    if rayjob is None or scene.status.running_time is None:
        return None
    if rayjob.deployment not in SUSPENDED:
        return None
    message = _describe(scene, rayjob.meta.name, rayjob.meta.uid)
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": rayjob.deployment})


def explain_suspension(scene: Scene) -> Iterator[Evidence]:
    """Yield the evidence of a suspension again, with the reason if it is known by now.

    The event with the reason may arrive after the attempt has ended.
    """
    evidence, rayjob = _recall_suspension(scene.status), scene.status.ray_job
    if evidence is not None and rayjob is not None:
        message = _describe(scene, rayjob.name, rayjob.uid or "")
        yield Evidence(evidence.cause, message, evidence.source, evidence.details)


def was_suspended(status: AttemptStatus) -> bool:
    """Return True if the RayJob was suspended while the driver was running."""
    return _recall_suspension(status) is not None


def is_suspension_unexplained(status: AttemptStatus) -> bool:
    """Return True if the attempt was suspended for a reason that is still unknown."""
    evidence = _recall_suspension(status)
    return evidence is not None and evidence.message.endswith(_BARE)


def _recall_suspension(status: AttemptStatus) -> Evidence | None:
    items = (record.evidence for record in status.evidence if record.source == "rayjob")
    return next((item for item in items if item.details.get("reason") in SUSPENDED), None)


def _describe(scene: Scene, name: str, uid: str) -> str:
    notice = find_newest(scene.notices, list_stop_reasons(), uid=uid)
    why = f": {notice.message}" if notice is not None else ""
    return f"RayJob {name} {_BARE}{why}"


def find_queue_obstacle(scene: Scene) -> Block | None:
    """Report a queue that delays the attempt, or can never admit it."""
    rayjob = scene.rayjob
    if rayjob is None:
        return None
    holder = find_holder(rayjob.meta)
    # Report this first, because nothing else shows that a queue can never admit an attempt.
    misfit = holder.explain_misfit(rayjob, is_queued=scene.is_queued)
    if misfit:
        return Block(Reason.QUEUE_UNFIT, misfit)
    if not scene.is_queued:
        return None
    state = scene.queue or QueueState()
    since = format_time(int(rayjob.meta.created if state.since is None else state.since))
    where = f"{holder.name_holder(rayjob.meta)} since {since}"
    return Block(Reason.QUEUED, f"{where}: {state.message}" if state.message else where)
