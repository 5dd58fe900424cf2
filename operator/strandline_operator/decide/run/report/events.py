"""What events report of a pass: workers that are lost, a pipeline that is held back or waits.

Each is reported once, where it begins; this room must not write the status.
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

# Nearly every run is so for some seconds; where it stays so, the attempt's end tells of it.
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

# Some of them stay, and then a person has to act.
_LASTING = frozenset({Reason.CLAIM_PENDING, Reason.UNSCHEDULABLE})
_GRACE_SECONDS = 300.0


def report_losses(facts: Pass, standing: PassState) -> Verdict:
    """Tell of the workers that an attempt has lost since, and goes on without."""
    scene, after = facts.scene, standing.newest
    if scene is None or after is None:
        return Verdict()
    # A loss that ended the attempt is no incident.
    if after.status.incidents <= scene.attempt.status.incidents:
        return Verdict()
    # The records in the status ensure that each loss is reported once.
    losses = list_new_losses(scene.attempt.status, after.status)
    words = f"{after.meta.name} lost a worker and continues:"
    return Verdict(
        events=tuple(warn(EventReason.WORKER_LOST, f"{words} {loss.message}") for loss in losses),
        counts=tuple(Count("workers_lost", loss.cause.value) for loss in losses),
    )


def report_changes(facts: Pass, standing: PassState) -> Verdict:
    """Report that the pipeline is held back from now on, goes on, or waits."""
    before, after = facts.view.pipeline.status, standing.status
    summary = after.find_condition(ConditionType.SUCCEEDED)
    was_held = before.find_condition(ConditionType.SUSPENDED) is not None
    is_held = after.find_condition(ConditionType.SUSPENDED) is not None
    if is_held and not was_held:
        verdict = Verdict(events=(add_event(EventReason.SUSPENDED, EventReason.SUSPENDED.meaning),))
    # A run that ended while it was held does not go on.
    elif was_held and not is_held and summary is not None and summary.status == "Unknown":
        verdict = Verdict(events=(add_event(EventReason.RESUMED, EventReason.RESUMED.meaning),))
    else:
        verdict = Verdict()
    verdict = verdict.then(_report_redo(facts, standing)).then(_report_hold(before, summary))
    return verdict.then(_report_block(facts, standing))


def _report_redo(facts: Pass, standing: PassState) -> Verdict:
    """Report once in a run that finished sources are done again."""
    before, progress = facts.view.pipeline.status.progress, standing.status.progress
    # An attempt that follows does again what is left, and the run has been told.
    if progress is None or not progress.redone or (before is not None and before.redone):
        return Verdict()
    driver = facts.scene.driver if facts.scene is not None else None
    reason = f" {driver.redo_reason}" if driver is not None and driver.redo_reason else ""
    total = "" if progress.total is None else f" of {progress.total:,}"
    number = f"{progress.redone:,}{total} source{'s' * ((progress.total or progress.redone) != 1)}"
    message = f"{number} {'is' if progress.redone == 1 else 'are'} processed again{reason}"
    return Verdict(events=(add_event(EventReason.REDOING, message),))


def _report_hold(before: PipelineStatus, summary: Condition | None) -> Verdict:
    """Report once that pods are kept, for people to look at."""
    former = before.find_condition(ConditionType.SUCCEEDED)
    was_held = former is not None and former.reason == Reason.HELD
    # The hold's first pass has reported it.
    if summary is None or summary.reason != Reason.HELD or was_held:
        return Verdict()
    return Verdict(events=(warn(EventReason.PODS_HELD, summary.message),))


def _report_lasting(facts: Pass, standing: PassState, block: Block) -> Verdict:
    """Report what usually passes by itself once it has kept an attempt waiting for long."""
    since = standing.active.status.start_time if standing.active is not None else None
    if (
        block.reason not in _LASTING
        or since is None
        or not has_lasted(since, facts.now, _GRACE_SECONDS)
    ):
        return Verdict()
    return Verdict(events=(warn(EventReason.BLOCKED, block.message),))


def _report_block(facts: Pass, standing: PassState) -> Verdict:
    """Describe what the pipeline waits for, once."""
    block = standing.decided.block
    # An event for each start would bury those that a person has to act on.
    if block is None:
        return Verdict()
    if block.reason in _USUAL:
        return _report_lasting(facts, standing, block)
    former, summary = (
        status.find_condition(ConditionType.SUCCEEDED)
        for status in (facts.view.pipeline.status, standing.status)
    )
    # An obstacle to a run that is over concerns no user.
    if summary is None or summary.reason != block.reason:
        return Verdict()
    # The pass that met the obstacle first has reported it.
    if former is not None and former.reason == summary.reason:
        return Verdict()
    return Verdict(events=(warn(EventReason.BLOCKED, block.message),))
