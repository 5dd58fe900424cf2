"""What the pipeline's status says of it all: phase, state, progress and conditions."""

from __future__ import annotations

from typing import NamedTuple

from strandline_api.documents.stored import describe_unknown
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.enums import AttemptPhase, PipelinePhase
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import Condition, PipelineStatus, Progress
from strandline_api.status.preflight import PreflightVerdict
from strandline_api.status.reasons import ConditionType, Reason
from strandline_api.times import format_time
from strandline_operator.decide.attempts.ending import read_progress
from strandline_operator.decide.attempts.stop import find_losses
from strandline_operator.decide.conditions import Truth, drop_conditions, set_condition
from strandline_operator.decide.obstacles.obstacles import Block, find_unread, read_refusals
from strandline_operator.decide.obstacles.output import examine_storage
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, add_event, warn
from strandline_operator.model.plan import Count
from strandline_operator.model.view import AttemptObject

# Nearly every run is so for some seconds; where it stays so, the attempt's end tells of it.
_USUAL = frozenset(
    {
        Reason.CLAIM_PENDING,
        Reason.UNSCHEDULABLE,
        Reason.NODE_ON_ITS_WAY,
        Reason.WAITS_FOR_PIPELINES,
        Reason.PREFLIGHT,
    }
)
_AT_REST = frozenset({Reason.WAITING_TO_RETRY.value, Reason.SUSPENDED.value})
_ONLY_WHEN_TRUE = (
    ConditionType.STALLED,
    ConditionType.RECONCILING,
    ConditionType.SUSPENDED,
)
_REASONS = {
    AttemptPhase.PENDING: Reason.PENDING,
    AttemptPhase.QUEUED: Reason.QUEUED,
    AttemptPhase.STARTING: Reason.STARTING,
    AttemptPhase.RUNNING: Reason.RUNNING,
    AttemptPhase.DRAINING: Reason.DRAINING,
    AttemptPhase.HELD: Reason.HELD,
    AttemptPhase.TEARING_DOWN: Reason.TEARING_DOWN,
}
_PREFLIGHTS: dict[PreflightVerdict, tuple[Truth, Reason]] = {
    PreflightVerdict.FAILED: ("False", Reason.PREFLIGHT_FAILED),
    PreflightVerdict.UNKNOWN: ("Unknown", Reason.PREFLIGHT_UNKNOWN),
}
_BEFORE_RUNNING = frozenset({AttemptPhase.PENDING, AttemptPhase.QUEUED, AttemptPhase.STARTING})


class ConditionSummary(NamedTuple):
    """A pipeline in a few words.

    Attributes:
        truth: of `Succeeded`, with its reason and message.
        state: what goes on, for people; None: as it was.
    """

    phase: PipelinePhase
    truth: Truth
    reason: str
    message: str
    state: str | None = None


def report_losses(facts: Pass, standing: PassState) -> Verdict:
    """Tell of the workers that an attempt has lost since, and goes on without."""
    scene, after = facts.scene, standing.newest
    if scene is None or after is None:
        return Verdict()
    lost_before, lost = scene.attempt.status.incidents, after.status.incidents
    # Each loss is told once, by the count that the status keeps.
    if lost <= lost_before:
        return Verdict()
    losses = find_losses(scene)[lost_before - lost :]
    words = f"{after.meta.name} goes on without a worker."
    return Verdict(
        events=tuple(warn(EventReason.WORKER_LOST, f"{words} {loss.message}") for loss in losses),
        counts=tuple(Count("workers_lost", loss.cause.value) for loss in losses),
    )


def report_changes(facts: Pass, standing: PassState) -> Verdict:
    """Tell that the pipeline is held back from now on, goes on, or waits for somebody."""
    before, after = facts.view.pipeline.status, standing.status
    summary = after.find_condition(ConditionType.SUCCEEDED)
    was_held = before.find_condition(ConditionType.SUSPENDED) is not None
    is_held = after.find_condition(ConditionType.SUSPENDED) is not None
    if is_held and not was_held:
        held = Verdict(events=(add_event(EventReason.SUSPENDED, EventReason.SUSPENDED.meaning),))
    # A run that ended while it was held does not go on.
    elif was_held and not is_held and summary is not None and summary.status == "Unknown":
        held = Verdict(events=(add_event(EventReason.RESUMED, EventReason.RESUMED.meaning),))
    else:
        held = Verdict()
    return held.then(_report_hold(before, summary)).then(_report_block(facts, standing))


def _report_hold(before: PipelineStatus, summary: Condition | None) -> Verdict:
    """Tell once that pods are kept: whoever is to look has to know of it."""
    former = before.find_condition(ConditionType.SUCCEEDED)
    was_held = former is not None and former.reason == Reason.HELD
    if summary is None or summary.reason != Reason.HELD or was_held:
        return Verdict()
    return Verdict(events=(warn(EventReason.PODS_HELD, summary.message),))


def _report_block(facts: Pass, standing: PassState) -> Verdict:
    """Describe what the pipeline waits for, once."""
    block = standing.decided.block
    # An event for each start would bury those that need somebody.
    if block is None or block.reason in _USUAL:
        return Verdict()
    former, summary = (
        status.find_condition(ConditionType.SUCCEEDED)
        for status in (facts.view.pipeline.status, standing.status)
    )
    # What a run that is over would meet with concerns nobody.
    if summary is None or summary.reason != block.reason:
        return Verdict()
    if former is not None and former.reason == summary.reason:
        return Verdict()
    return Verdict(events=(warn(EventReason.BLOCKED, block.message),))


def report_refusals(facts: Pass, standing: PassState) -> Verdict:
    """Describe what the API server refused in the last pass, where nothing worse is the matter."""
    del standing
    return Verdict(block=read_refusals(facts.view.refusals))


def report_progress(facts: Pass, standing: PassState) -> Verdict:
    """Take over the newest attempt's progress, and what its publications lead to."""
    del facts
    newest = standing.newest
    # What an earlier run has come to stands until the next one begins.
    if newest is None:
        return Verdict()
    attempt, known = newest.status, standing.status
    progress = read_progress(attempt, attempt.end_time) or attempt.progress
    is_new = progress is not None and not _is_behind(known.progress, progress)
    changes = {
        "progress": progress if is_new else known.progress,
        "latest": attempt.latest or known.latest,
    }
    return Verdict(known.model_copy(update=changes))


def _is_behind(known: Progress | None, progress: Progress) -> bool:
    """Whether an attempt that still lists its sources has not come to all that are finished yet."""
    return known is not None and progress.total is None and progress.finished < known.finished


def report(facts: Pass, standing: PassState) -> Verdict:
    """Sum up everything that was decided in phase, state and conditions."""
    summary, storage = _sum_up(facts, standing), examine_storage(facts)
    claim = facts.view.claim
    named = facts.spec.storage.ledger.claim_name or (claim.meta.name if claim else "")
    changes = {
        "observed_generation": facts.view.pipeline.meta.generation,
        "phase": summary.phase,
        "state": standing.status.state if summary.state is None else summary.state,
        "volume_claim": named,
    }
    status = standing.status.model_copy(update=changes)
    status = _set(
        facts, status, ConditionType.SUCCEEDED, summary.truth, summary.reason, summary.message
    )
    status = _set(
        facts, status, ConditionType.STORAGE_READY, storage.truth, storage.reason, storage.message
    )
    return Verdict(_show_kind(facts, standing, status, summary))


def _show_kind(
    facts: Pass, standing: PassState, status: PipelineStatus, summary: ConditionSummary
) -> PipelineStatus:
    """Show the one condition that tools read by its presence, if any fits."""
    if summary.truth == "False":
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    # Nothing goes on until somebody edits one of them, or has looked at what is held for that.
    if summary.reason in {Reason.COMES_AFTER_ITSELF, Reason.HELD}:
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    is_open = summary.truth == "Unknown"
    if is_open and facts.spec.suspend:
        suspended = Reason.SUSPENDED
        return _show_only(facts, status, ConditionType.SUSPENDED, suspended, suspended.explain())
    # Later on a retry is no change that somebody rolls out, and Flux would wait for its end.
    if is_open and not _has_run(standing):
        return _show_only(facts, status, ConditionType.RECONCILING, summary.reason, summary.message)
    return _show_only(facts, status)


def _has_run(standing: PassState) -> bool:
    """Return whether an attempt of this run has had its driver running, or has ended."""
    # Retries of a run that has worked before are no news.
    if any(past.run == standing.status.run for past in standing.status.attempts):
        return True
    return standing.active is not None and standing.active.status.running_time is not None


def report_invalid(facts: Pass, standing: PassState) -> Verdict:
    """Describe what is wrong with the spec; an attempt under way still goes on."""
    message = "; ".join(facts.view.pipeline.problems) or "the spec is invalid"
    generation, known = facts.view.pipeline.meta.generation, standing.status
    phase = known.phase if standing.active is not None else PipelinePhase.FAILED
    changes = {"observed_generation": generation, "state": message, "phase": phase}
    status = known.model_copy(update=changes)
    status = _show_only(facts, status, ConditionType.STALLED, "InvalidSpec", message)
    # Not False: an attempt that is under way may still complete the run.
    return Verdict(_set(facts, status, ConditionType.SUCCEEDED, "Unknown", "InvalidSpec", message))


def report_unread(facts: Pass, standing: PassState) -> Verdict:
    """Describe that too little could be read to decide anything."""
    block, status = find_unread(facts.view), standing.status
    summary = status.find_condition(ConditionType.SUCCEEDED)
    # A run that is over stays over, whatever can be read of it.
    if block is None or (summary is not None and summary.status != "Unknown"):
        return Verdict()
    # Tools take an object without a status for one that is ready.
    if not facts.view.pipeline.has_status:
        generation = facts.view.pipeline.meta.generation
        status = status.model_copy(update={"observed_generation": generation})
        status = _show_only(facts, status, ConditionType.RECONCILING, block.reason, block.message)
    status = status.model_copy(update={"state": block.message})
    return Verdict(
        _set(facts, status, ConditionType.SUCCEEDED, "Unknown", block.reason, block.message)
    )


def report_deletion(facts: Pass, standing: PassState, waits_for: str) -> Verdict:
    """Describe what the deletion waits for."""
    message = Reason.DELETING.explain(waits_for)
    changes = {
        "observed_generation": facts.view.pipeline.meta.generation,
        "phase": PipelinePhase.DELETING,
        "state": message,
    }
    status = standing.status.model_copy(update=changes)
    return Verdict(
        _set(facts, status, ConditionType.SUCCEEDED, "Unknown", Reason.DELETING, message)
    )


def rest(facts: Pass, standing: PassState) -> Verdict:
    """Note that nothing but the pipeline itself can change anything before the next wake."""
    summary = standing.status.find_condition(ConditionType.SUCCEEDED)
    is_plain = summary is not None and (summary.status != "Unknown" or summary.reason in _AT_REST)
    is_clear = not (standing.decided.actions or facts.view.refusals or facts.view.unread)
    return Verdict(is_at_rest=standing.active is None and is_plain and is_clear)


def _sum_up(facts: Pass, standing: PassState) -> ConditionSummary:
    status = standing.status
    if standing.active is not None:
        return _sum_up_attempt(standing, standing.active)
    if status.next_attempt_time is not None:
        return _sum_up_wait(facts, standing, status.next_attempt_time)
    # No attempt is due, and the last one ended badly: the law has given up.
    if status.retry_cause is not None:
        message = status.state or f"the last attempt ended with {status.retry_cause}"
        return ConditionSummary(PipelinePhase.FAILED, "False", status.retry_cause.value, message)
    done = f" ({status.progress.text})" if status.progress else ""
    message = f"run {status.run} is complete{done}"
    due = status.schedule.next_time if status.schedule else None
    state = f"{message}, next run at {format_time(due)}" if due is not None else message
    return ConditionSummary(PipelinePhase.SUCCEEDED, "True", Reason.COMPLETED, message, state)


def _sum_up_attempt(standing: PassState, active: AttemptObject) -> ConditionSummary:
    """Sum up a pipeline whose attempt is under way."""
    attempt: AttemptStatus = active.status
    block = standing.decided.block
    is_early = attempt.phase in _BEFORE_RUNNING
    phase = PipelinePhase.PENDING if is_early else PipelinePhase.RUNNING
    if block is not None:
        what = block.detail if _is_of_room(block) else block.message
        state = f"attempt {active.spec.number}: {what}"
        return ConditionSummary(phase, "Unknown", block.reason, block.message, state)
    if attempt.phase is AttemptPhase.HELD:
        return _sum_up_held(active)
    reason = _REASONS.get(attempt.phase, Reason.RUNNING)
    state = f"attempt {active.spec.number}: {attempt.phase.value}"
    return ConditionSummary(
        phase, "Unknown", reason, f"{state}; {attempt.message}".rstrip("; "), state
    )


def _is_of_room(block: Block) -> bool:
    """Return whether it may last for hours with nothing else to tell."""
    return block.reason in {Reason.NO_ROOM, Reason.NODE_ON_ITS_WAY}


def _sum_up_held(active: AttemptObject) -> ConditionSummary:
    """Sum up a pipeline whose run has failed; as long as pods are kept its cause is not final."""
    until = format_time(round(active.status.held_until or 0))
    state = (
        f"attempt {active.spec.number} failed with {active.status.cause}, and none follows; its "
        f"pods are kept until {until}"
    )
    message = Reason.HELD.explain(f"{state}; {active.status.message}")
    return ConditionSummary(PipelinePhase.FAILED, "Unknown", Reason.HELD, message, state)


def _sum_up_wait(facts: Pass, standing: PassState, due: float) -> ConditionSummary:
    """Sum up a pipeline of which an attempt is due, now or later."""
    status, block = standing.status, standing.decided.block
    suspended = Reason.SUSPENDED.explain()
    # Whoever holds it back knows why nothing goes on: no obstacle is told meanwhile.
    if facts.spec.suspend:
        return ConditionSummary(
            PipelinePhase.SUSPENDED, "Unknown", Reason.SUSPENDED, suspended, suspended
        )
    if block is not None:
        is_wait = block.reason is Reason.WAITS_FOR_PIPELINES
        state = f"waits for {block.detail}" if is_wait else block.message
        phase = PipelinePhase.PENDING
        return ConditionSummary(phase, "Unknown", block.reason, block.message, state)
    if not facts.view.turn.is_open and due <= facts.now:
        # For a while, or as long as the limit is 0.
        is_stopped = facts.view.turn.opens_at is None
        held = Reason.DISPATCH_STOPPED if is_stopped else Reason.RETRIES_HELD_BACK
        words = held.explain()
        return ConditionSummary(PipelinePhase.WAITING, "Unknown", held, words, words)
    # There is nothing to retry yet, of this run.
    if status.retry_cause is None and all(past.run != status.run for past in status.attempts):
        pending = Reason.PENDING
        state = f"run {status.run} begins its first attempt" if status.attempts else ""
        return ConditionSummary(PipelinePhase.PENDING, "Unknown", pending, pending.meaning, state)
    state = _word_wait(facts, status, due)
    return ConditionSummary(PipelinePhase.WAITING, "Unknown", Reason.WAITING_TO_RETRY, state, state)


def _word_wait(facts: Pass, status: PipelineStatus, due: float) -> str:
    """Word a wait for the next attempt as the law of retries has: with the cause and the budget.

    What stood there of an obstacle, or of a suspension, is past.
    """
    before = facts.view.pipeline.status
    former = before.find_condition(ConditionType.SUCCEEDED)
    was_wait = former is not None and former.reason == Reason.WAITING_TO_RETRY
    if status.state and (was_wait or status.state != before.state):
        return status.state
    after = f" after {status.retry_cause}" if status.retry_cause is not None else ""
    return f"next attempt at {format_time(due)}{after}"


def report_edit(facts: Pass, standing: PassState) -> Verdict:
    """Return whether what runs is what the spec says; only what somebody edited is told of."""
    view, status = facts.view.pipeline, standing.status
    seen = view.status.observed_generation
    is_edited = view.has_status and seen is not None and seen != view.meta.generation
    summary = status.find_condition(ConditionType.SUCCEEDED)
    is_over = summary is not None and summary.status != "Unknown"
    old = status.find_condition(ConditionType.SPEC_APPLIED)
    waited = old is not None and old.reason == Reason.WAITS_FOR_NEXT_ATTEMPT
    # What is made next is made from this spec.
    is_next = standing.active is None and not is_over
    if not is_next and (is_edited or (is_over and waited)):
        reason = Reason.WAITS_FOR_NEXT_RUN if is_over else Reason.WAITS_FOR_NEXT_ATTEMPT
        return Verdict(
            _set(facts, status, ConditionType.SPEC_APPLIED, "False", reason, reason.explain())
        )
    if is_next or old is None:
        applied = Reason.APPLIED
        return Verdict(
            _set(facts, status, ConditionType.SPEC_APPLIED, "True", applied, applied.meaning)
        )
    return Verdict()


def report_preflight(facts: Pass, standing: PassState) -> Verdict:
    """Tell what a check of this very spec has come to, where that is not what one hopes for."""
    status, known = standing.status, standing.status.preflight
    # An edit since then is told in another way.
    if known is None or known.generation != facts.view.pipeline.meta.generation:
        return Verdict()
    is_awaited = status.next_attempt_time is not None and not facts.spec.suspend
    truth, reason = _PREFLIGHTS.get(known.verdict, ("True", Reason.APPLIED))
    # One that nobody waits for any more has nothing to tell.
    if known.verdict is PreflightVerdict.PENDING and is_awaited:
        truth, reason = "Unknown", Reason.PREFLIGHT
    if known.verdict is PreflightVerdict.PASSED:
        return Verdict()
    message = reason.explain(known.message)
    return Verdict(_set(facts, status, ConditionType.SPEC_APPLIED, truth, reason, message))


def report_unknown(facts: Pass, standing: PassState) -> Verdict:
    """Tell which fields of the spec are ignored: its definition is newer than this operator."""
    unknown, reported = facts.view.pipeline.unknown, ConditionType.FIELDS_IGNORED
    if unknown:
        reason = Reason.OPERATOR_IS_OLDER
        message = reason.explain(describe_unknown("it", unknown))
        return Verdict(_set(facts, standing.status, reported, "True", reason, message))
    kept = drop_conditions(standing.status.conditions, [reported])
    return Verdict(standing.status.model_copy(update={"conditions": kept}))


def _set(
    facts: Pass,
    status: PipelineStatus,
    type_: ConditionType,
    truth: Truth,
    reason: str,
    message: str,
) -> PipelineStatus:
    conditions = set_condition(
        status.conditions,
        type_,
        truth,
        str(reason),
        message,
        facts.now,
        generation=facts.view.pipeline.meta.generation,
    )
    return status.model_copy(update={"conditions": conditions})


def _show_only(
    facts: Pass,
    status: PipelineStatus,
    shown: ConditionType | None = None,
    reason: str = "",
    message: str = "",
) -> PipelineStatus:
    """Of the conditions that are there only when they are true, have this one or none."""
    # Such a condition is removed, not set to False: tools read its mere presence. One that stays
    # keeps its time, or each pass would write the status and so bring about the next.
    untrue = [type_ for type_ in _ONLY_WHEN_TRUE if type_ is not shown]
    kept = drop_conditions(status.conditions, untrue)
    status = status.model_copy(update={"conditions": kept})
    return status if shown is None else _set(facts, status, shown, "True", reason, message)
