"""Events that come of a difference: what the statuses said before a pass, and what they say after.

Each is told once, by the pass that changes it. This room must not change a status.
"""

from __future__ import annotations

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.attempts.stop import find_losses
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.decide.scene import Scene

# Nearly every run is so for some seconds; where it stays so, the attempt's end tells of it.
_USUAL = frozenset({Reason.CLAIM_PENDING, Reason.UNSCHEDULABLE})


def tell_losses(draft: Draft, scene: Scene, status: AttemptStatus) -> None:
    """Tell of the workers that an attempt has lost since, and goes on without."""
    lost_before = scene.attempt.status.incidents
    if status.incidents <= lost_before:
        return
    for loss in find_losses(scene)[lost_before - status.incidents :]:
        draft.count("workers_lost", loss.cause.value)
        message = f"{scene.attempt.meta.name} goes on without a worker. {loss.message}"
        draft.tell(EventReason.WORKER_LOST, message, is_warning=True)


def tell_changes(draft: Draft, block: Block | None) -> None:
    """Tell that the pipeline is held back from now on, goes on, or waits for somebody."""
    before, after = draft.view.pipeline.status, draft.status
    summary = after.find_condition(ConditionType.SUCCEEDED)
    was_held, is_held = (
        one.find_condition(ConditionType.SUSPENDED) is not None for one in (before, after)
    )
    if is_held and not was_held:
        draft.tell(EventReason.SUSPENDED, EventReason.SUSPENDED.meaning)
    if was_held and not is_held and summary is not None and summary.status == "Unknown":
        draft.tell(EventReason.RESUMED, EventReason.RESUMED.meaning)
    if block is None or block.reason in _USUAL:
        return
    if summary is None or summary.reason != block.reason:
        return
    former = before.find_condition(ConditionType.SUCCEEDED)
    if former is None or former.reason != summary.reason:
        draft.tell(EventReason.BLOCKED, block.message, is_warning=True)
