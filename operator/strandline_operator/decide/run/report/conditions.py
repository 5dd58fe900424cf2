"""Sets the conditions in a pipeline's status after a pass, and determines whether it is at rest.

This module must not depend on the wording of a summary.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.documents.stored import describe_unknown
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.preflight import PreflightVerdict
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.conditions import Truth, drop_conditions, has_lasted, set_condition
from strandline_operator.decide.obstacles.obstacles import Block, find_unread, read_refusals
from strandline_operator.decide.obstacles.volumes.output import examine_storage
from strandline_operator.decide.run.lineage import is_pending
from strandline_operator.decide.run.report.brief import (
    choose_form,
    list_block_forms,
    list_problem_forms,
)
from strandline_operator.decide.run.report.summary import ConditionSummary, sum_up
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, warn

_AT_REST = frozenset({Reason.WAITING_TO_RETRY.value, Reason.SUSPENDED.value})
_EDIT_SECONDS = 60.0
_ONLY_WHEN_TRUE = (
    ConditionType.STALLED,
    ConditionType.RECONCILING,
    ConditionType.SUSPENDED,
)
_PREFLIGHTS: dict[PreflightVerdict, tuple[Truth, Reason]] = {
    PreflightVerdict.FAILED: ("False", Reason.PREFLIGHT_FAILED),
    PreflightVerdict.UNKNOWN: ("Unknown", Reason.PREFLIGHT_UNKNOWN),
}


def report_refusals(facts: Pass, standing: PassState) -> Verdict:
    """Report requests that the API server rejected, unless another obstacle was found."""
    del standing
    return Verdict(block=read_refusals(facts.view.refusals))


def report_obstacle(facts: Pass, standing: PassState) -> Verdict:
    """Write an obstacle to the running attempt's status, until the attempt ends."""
    active, block = standing.active, standing.decided.block
    if active is None or active.status.end_time is not None:
        return Verdict()
    message = "" if block is None else block.sentence
    # Most passes meet no obstacle, and parsing a status is expensive, so return early.
    if block is None and active.status.message == message:
        return Verdict()
    status = evolve(active.status, message=message)
    if block is not None:
        conditions = set_condition(
            status.conditions,
            ConditionType.SUCCEEDED,
            "Unknown",
            block.reason,
            block.message,
            facts.now,
            generation=active.meta.generation,
        )
        status = evolve(status, conditions=conditions)
    return Verdict(attempts={active.meta.name: status})


def report(facts: Pass, standing: PassState) -> Verdict:
    """Summarize all decisions in the phase, the state, and the conditions."""
    summary, storage = sum_up(facts, standing), examine_storage(facts)
    claim = facts.view.claim
    claim_name = facts.spec.storage.ledger.claim_name or (claim.meta.name if claim else "")
    state = standing.status.state if summary.state is None else summary.state
    status = evolve(
        standing.status,
        observed_generation=facts.view.pipeline.meta.generation,
        phase=summary.phase,
        state=state,
        summary=choose_form(state, *summary.forms),
        next_start_time=_find_next_start(facts, standing, summary),
        volume_claim=claim_name,
    )
    status = _set(
        facts, status, ConditionType.SUCCEEDED, summary.truth, summary.reason, summary.message
    )
    status = _set(
        facts, status, ConditionType.STORAGE_READY, storage.truth, storage.reason, storage.message
    )
    return Verdict(_show_kind(facts, standing, status, summary))


def _find_next_start(facts: Pass, standing: PassState, summary: ConditionSummary) -> float | None:
    """Return when the next attempt starts, or None if an obstacle delays the start."""
    due = standing.status.next_attempt_time
    # A suspended or blocked attempt keeps its due time, but does not start at that time.
    if summary.phase is not PipelinePhase.WAITING or due is None or due <= facts.now:
        return None
    return due


def _show_kind(
    facts: Pass, standing: PassState, status: PipelineStatus, summary: ConditionSummary
) -> PipelineStatus:
    """Set at most one of the conditions that tools recognize by their presence."""
    # A failed run needs a person's attention, which Stalled signals to tools.
    if summary.truth == "False":
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    # The run waits for a user, who has to edit one of the pipelines, or to inspect the held pods.
    if summary.reason in {Reason.COMES_AFTER_ITSELF, Reason.HELD}:
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    is_open = summary.truth == "Unknown"
    # Tools must not wait for a suspended pipeline, because it makes no progress.
    if is_open and facts.spec.suspend:
        suspended = Reason.SUSPENDED
        return _show_only(facts, status, ConditionType.SUSPENDED, suspended, suspended.explain())
    # Do not set Reconciling for retries: they do not roll out a change, but Flux would wait for
    # their end.
    if is_open and not _has_run(standing):
        return _show_only(facts, status, ConditionType.RECONCILING, summary.reason, summary.message)
    return _show_only(facts, status)


def _has_run(standing: PassState) -> bool:
    """Return True if any attempt of this run has started its driver, or has ended."""
    # An ended attempt is in the history.
    if any(past.run == standing.status.run for past in standing.status.attempts):
        return True
    return standing.active is not None and standing.active.status.running_time is not None


def report_invalid(facts: Pass, standing: PassState) -> Verdict:
    """Report problems of the spec. A running attempt continues regardless."""
    message = "; ".join(facts.view.pipeline.problems) or "the spec is invalid"
    generation, before = facts.view.pipeline.meta.generation, standing.status
    phase = before.phase if standing.active is not None else PipelinePhase.FAILED
    forms = list_problem_forms(facts.view.pipeline.problems)
    status = evolve(
        before,
        observed_generation=generation,
        state=message,
        summary=choose_form(message, *forms),
        next_start_time=None,
        phase=phase,
    )
    status = _show_only(facts, status, ConditionType.STALLED, "InvalidSpec", message)
    # Set Unknown instead of False, because a running attempt may still complete the run.
    status = _set(facts, status, ConditionType.SUCCEEDED, "Unknown", "InvalidSpec", message)
    stalled = status.find_condition(ConditionType.STALLED)
    if standing.active is not None or stalled is None:
        return Verdict(status)
    # Delay the event, because users often fix a spec immediately with another edit.
    since = stalled.last_transition_time
    is_lasting = has_lasted(since, facts.now, _EDIT_SECONDS)
    events = (warn(EventReason.RUN_FAILED, message),) if is_lasting else ()
    return Verdict(status, events=events, wakes=(since + _EDIT_SECONDS,))


def report_unread(facts: Pass, standing: PassState) -> Verdict:
    """Report that too little could be read to decide anything."""
    block, status = find_unread(facts.view), standing.status
    summary = status.find_condition(ConditionType.SUCCEEDED)
    # Keep the result of a finished run, even if some objects can't be read.
    if block is None or (summary is not None and summary.status != "Unknown"):
        return Verdict()
    # Write a status, because tools treat an object without a status as ready.
    if not facts.view.pipeline.has_status:
        generation = facts.view.pipeline.meta.generation
        status = evolve(status, observed_generation=generation)
        status = _show_only(facts, status, ConditionType.RECONCILING, block.reason, block.message)
    brief = choose_form(block.message, *list_block_forms(block))
    status = evolve(status, state=block.message, summary=brief, next_start_time=None)
    # Send the event only once per obstacle.
    is_new = summary is None or summary.reason != block.reason
    return Verdict(
        _set(facts, status, ConditionType.SUCCEEDED, "Unknown", block.reason, block.message),
        events=(warn(EventReason.BLOCKED, block.message),) if is_new else (),
    )


def report_deletion(facts: Pass, standing: PassState, waits_for: str) -> Verdict:
    """Report what blocks the deletion."""
    message = Reason.DELETING.explain(waits_for)
    status = evolve(
        standing.status,
        observed_generation=facts.view.pipeline.meta.generation,
        phase=PipelinePhase.DELETING,
        state=message,
        summary=choose_form(message, *list_block_forms(Block(Reason.DELETING, waits_for))),
        next_start_time=None,
    )
    return Verdict(
        _set(facts, status, ConditionType.SUCCEEDED, "Unknown", Reason.DELETING, message)
    )


def rest(facts: Pass, standing: PassState) -> Verdict:
    """Record whether no pass is needed until the pipeline changes or the next wake time."""
    summary = standing.status.find_condition(ConditionType.SUCCEEDED)
    is_plain = summary is not None and (summary.status != "Unknown" or summary.reason in _AT_REST)
    is_clear = not (standing.decided.actions or facts.view.refusals or facts.view.unread)
    # A pending lineage report needs another pass to record its result.
    is_sent = not any(is_pending(facts.limits, past) for past in standing.status.attempts)
    return Verdict(is_at_rest=standing.active is None and is_plain and is_clear and is_sent)


def report_edit(facts: Pass, standing: PassState) -> Verdict:
    """Set SpecApplied: whether the latest attempt uses the current spec."""
    view, status = facts.view.pipeline, standing.status
    generation = view.status.observed_generation
    is_edited = view.has_status and generation is not None and generation != view.meta.generation
    summary = status.find_condition(ConditionType.SUCCEEDED)
    is_over = summary is not None and summary.status != "Unknown"
    old = status.find_condition(ConditionType.SPEC_APPLIED)
    waited = old is not None and old.reason == Reason.WAITS_FOR_NEXT_ATTEMPT
    # If no attempt is running, the next attempt will use this spec.
    is_next = standing.active is None and not is_over
    # If the run ends before its next attempt, a waiting edit has to wait for the next run.
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
    """Report a failed or unfinished preflight check of the current spec."""
    status, record = standing.status, standing.status.preflight
    # After an edit, the result of the check is about an outdated spec.
    if record is None or record.generation != facts.view.pipeline.meta.generation:
        return Verdict()
    is_awaited = status.next_attempt_time is not None and not facts.spec.suspend
    truth, reason = _PREFLIGHTS.get(record.verdict, ("True", Reason.APPLIED))
    # A pending check matters only if an attempt waits for it.
    if record.verdict is PreflightVerdict.PENDING and is_awaited:
        truth, reason = "Unknown", Reason.PREFLIGHT
    # A passed check needs no report, so leave SpecApplied unchanged.
    if record.verdict is PreflightVerdict.PASSED:
        return Verdict()
    message = reason.explain(record.message)
    return Verdict(_set(facts, status, ConditionType.SPEC_APPLIED, truth, reason, message))


def report_published(facts: Pass, standing: PassState) -> Verdict:
    """Report whether the last completed run met the spec's requirements for publishing."""
    status, reported = standing.status, ConditionType.PUBLISHED
    # Without requirements, `latest` follows every publication, so remove the condition.
    if facts.spec.publish is None:
        return Verdict(evolve(status, conditions=drop_conditions(status.conditions, [reported])))
    summary = status.find_condition(ConditionType.SUCCEEDED)
    former = facts.view.pipeline.status.find_condition(ConditionType.SUCCEEDED)
    cause = status.retry_cause
    # While a run is open, the condition still describes the last finished run.
    if summary is None or summary.status == "Unknown":
        return Verdict()
    if summary.status == "False" and cause is Cause.REQUIREMENTS_NOT_MET:
        message = standing.newest.status.message if standing.newest else summary.message
        return Verdict(_set(facts, status, reported, "False", cause.value, message))
    # Requirements that were added after the end of the run were not checked.
    if summary.status == "True" and (former is None or former.status != "True"):
        message = Reason.PUBLISHED.explain(_describe_published(facts, standing))
        return Verdict(_set(facts, status, reported, "True", Reason.PUBLISHED, message))
    return Verdict()


def _describe_published(facts: Pass, standing: PassState) -> str:
    status, publish, newest = standing.status, facts.spec.publish, standing.newest
    files = facts.spec.output_location
    output = f", files at {files}" if files else ""
    # Only the driver's final report contains the delivered revision.
    outcome = newest.status.outcome if newest is not None else None
    is_delivered = publish is not None and publish.to is not None
    more = f"; {outcome.message}" if is_delivered and outcome is not None else ""
    return f"`latest` points to {status.latest} on claim {status.volume_claim}{output}{more}"


def report_unknown(facts: Pass, standing: PassState) -> Verdict:
    """Report ignored fields of the spec: the CRD is newer than this operator."""
    unknown, reported = facts.view.pipeline.unknown, ConditionType.FIELDS_IGNORED
    if unknown:
        reason = Reason.OPERATOR_IS_OLDER
        message = reason.explain(describe_unknown("it", unknown))
        return Verdict(_set(facts, standing.status, reported, "True", reason, message))
    others = drop_conditions(standing.status.conditions, [reported])
    return Verdict(evolve(standing.status, conditions=others))


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
    return evolve(status, conditions=conditions)


def _show_only(
    facts: Pass,
    status: PipelineStatus,
    only: ConditionType | None = None,
    reason: str = "",
    message: str = "",
) -> PipelineStatus:
    """Keep at most the given condition among the conditions that exist only while they are true."""
    # Remove an untrue condition instead of setting it to False, because tools react to its
    # presence. Keep the time of a remaining condition. Otherwise, each pass would write the status
    # and trigger another pass.
    untrue = [type_ for type_ in _ONLY_WHEN_TRUE if type_ is not only]
    status = evolve(status, conditions=drop_conditions(status.conditions, untrue))
    return status if only is None else _set(facts, status, only, "True", reason, message)
