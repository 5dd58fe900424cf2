"""Creates the events of a pass, for example for lost workers and suspended pipelines.

Each event is sent once, when a state begins. This module must not write the status.
"""

from __future__ import annotations

from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import Condition, PipelineStatus
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.attempts.losses import list_new_losses
from strandline_operator.decide.conditions import has_lasted
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, add_event, warn
from strandline_operator.model.plan import Count

# Nearly every run is in these states for some seconds, so they cause no event. If such a state
# lasts, the message about the attempt's end names it.
_USUAL = frozenset(
    {
        Reason.CLAIM_PENDING,
        Reason.UNSCHEDULABLE,
        Reason.NODE_ON_ITS_WAY,
        Reason.WAITS_FOR_PIPELINES,
        Reason.PREFLIGHT,
        Reason.QUEUED,
    }
)

# If these states last, a person must act, so they cause an event after a while.
_LASTING = frozenset({Reason.CLAIM_PENDING, Reason.UNSCHEDULABLE})
_GRACE_SECONDS = 300.0


def report_losses(facts: Pass, standing: PassState) -> Verdict:
    """Report workers that were lost in this pass while their attempt continues."""
    scene, after = facts.scene, standing.newest
    if scene is None or after is None:
        return Verdict()
    # A loss that ended the attempt is not an incident.
    if after.status.incidents <= scene.attempt.status.incidents:
        return Verdict()
    # The status records losses, so each loss is reported only once.
    losses = list_new_losses(scene.attempt.status, after.status)
    words = f"{after.meta.name} lost a worker and continues:"
    return Verdict(
        events=tuple(warn(EventReason.WORKER_LOST, f"{words} {loss.message}") for loss in losses),
        counts=tuple(Count("workers_lost", loss.cause.value) for loss in losses),
    )


def report_changes(facts: Pass, standing: PassState) -> Verdict:
    """Report that the pipeline was suspended, was resumed, or began to wait."""
    before, after = facts.view.pipeline.status, standing.status
    summary = after.find_condition(ConditionType.SUCCEEDED)
    was_held = before.find_condition(ConditionType.SUSPENDED) is not None
    is_held = after.find_condition(ConditionType.SUSPENDED) is not None
    if is_held and not was_held:
        verdict = Verdict(events=(add_event(EventReason.SUSPENDED, EventReason.SUSPENDED.meaning),))
    # A run that ended while it was suspended does not resume.
    elif was_held and not is_held and summary is not None and summary.status == "Unknown":
        verdict = Verdict(events=(add_event(EventReason.RESUMED, EventReason.RESUMED.meaning),))
    else:
        verdict = Verdict()
    verdict = verdict.then(_report_redo(facts, standing)).then(_report_hold(before, summary))
    return verdict.then(_report_block(facts, standing))


def _report_redo(facts: Pass, standing: PassState) -> Verdict:
    """Report once per run that finished sources are being reprocessed."""
    before, progress = facts.view.pipeline.status.progress, standing.status.progress
    # Later attempts of the run continue the reprocessing, which was already reported.
    if progress is None or not progress.redone or (before is not None and before.redone):
        return Verdict()
    driver = facts.scene.driver if facts.scene is not None else None
    reason = f" {driver.redo_reason}" if driver is not None and driver.redo_reason else ""
    total = "" if progress.total is None else f" of {progress.total:,}"
    number = f"{progress.redone:,}{total} source{'s' * ((progress.total or progress.redone) != 1)}"
    message = f"{number} {'is' if progress.redone == 1 else 'are'} processed again{reason}"
    return Verdict(events=(add_event(EventReason.REDOING, message),))


def _report_hold(before: PipelineStatus, summary: Condition | None) -> Verdict:
    """Report once that pods are kept for inspection."""
    former = before.find_condition(ConditionType.SUCCEEDED)
    was_held = former is not None and former.reason == Reason.HELD
    # An earlier pass already reported the hold.
    if summary is None or summary.reason != Reason.HELD or was_held:
        return Verdict()
    return Verdict(events=(warn(EventReason.PODS_HELD, summary.message),))


def _report_lasting(facts: Pass, standing: PassState, block: Block) -> Verdict:
    """Report an obstacle that usually passes quickly, after it has lasted for a long time."""
    since = standing.active.status.start_time if standing.active is not None else None
    if (
        block.reason not in _LASTING
        or since is None
        or not has_lasted(since, facts.now, _GRACE_SECONDS)
    ):
        return Verdict()
    return Verdict(events=(warn(EventReason.BLOCKED, block.message),))


def _report_block(facts: Pass, standing: PassState) -> Verdict:
    """Report the obstacle that blocks the pipeline, but only once."""
    block = standing.decided.block
    if block is None:
        return Verdict()
    # An event for each of these brief states would hide events that need action.
    if block.reason in _USUAL:
        return _report_lasting(facts, standing, block)
    former, summary = (
        status.find_condition(ConditionType.SUCCEEDED)
        for status in (facts.view.pipeline.status, standing.status)
    )
    # Do not report obstacles after the run has finished.
    if summary is None or summary.reason != block.reason:
        return Verdict()
    # An earlier pass has already reported this obstacle.
    if former is not None and former.reason == summary.reason:
        return Verdict()
    return Verdict(events=(warn(EventReason.BLOCKED, block.message),))
