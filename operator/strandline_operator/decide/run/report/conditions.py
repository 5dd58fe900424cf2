"""Which conditions a pipeline's status has after a pass, and whether anything is left to do.

This room must not know how a summary is worded.
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
    """Describe what the API server refused in the last pass, where nothing worse is the matter."""
    del standing
    return Verdict(block=read_refusals(facts.view.refusals))


def report_obstacle(facts: Pass, standing: PassState) -> Verdict:
    """Show the obstacle of an attempt in its own status, until the attempt ends."""
    active, block = standing.active, standing.decided.block
    if active is None or active.status.end_time is not None:
        return Verdict()
    message = "" if block is None else block.sentence
    # Most passes meet no obstacle, and a status costs a validation.
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
    """Sum up everything that was decided in phase, state and conditions."""
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
    """Return when the next attempt starts, or None while something else holds it back."""
    due = standing.status.next_attempt_time
    # A suspended or blocked pipeline keeps the due time of its attempt, which then starts later.
    if summary.phase is not PipelinePhase.WAITING or due is None or due <= facts.now:
        return None
    return due


def _show_kind(
    facts: Pass, standing: PassState, status: PipelineStatus, summary: ConditionSummary
) -> PipelineStatus:
    """Show the one condition that tools read by its presence, if any fits."""
    # A run that has given up needs a person: tools read Stalled as that.
    if summary.truth == "False":
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    # The run stands still until a user edits one of the pipelines, or has looked at the held pods.
    if summary.reason in {Reason.COMES_AFTER_ITSELF, Reason.HELD}:
        return _show_only(facts, status, ConditionType.STALLED, summary.reason, summary.message)
    is_open = summary.truth == "Unknown"
    # A suspension explains the standstill, so tools must not wait for progress.
    if is_open and facts.spec.suspend:
        suspended = Reason.SUSPENDED
        return _show_only(facts, status, ConditionType.SUSPENDED, suspended, suspended.explain())
    # A later retry is no roll-out of a change, and Flux would wait for its end.
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
    # Not False: an attempt that is under way may still complete the run.
    status = _set(facts, status, ConditionType.SUCCEEDED, "Unknown", "InvalidSpec", message)
    stalled = status.find_condition(ConditionType.STALLED)
    if standing.active is not None or stalled is None:
        return Verdict(status)
    # An edit often mends a spec at once.
    since = stalled.last_transition_time
    is_lasting = has_lasted(since, facts.now, _EDIT_SECONDS)
    events = (warn(EventReason.RUN_FAILED, message),) if is_lasting else ()
    return Verdict(status, events=events, wakes=(since + _EDIT_SECONDS,))


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
        status = evolve(status, observed_generation=generation)
        status = _show_only(facts, status, ConditionType.RECONCILING, block.reason, block.message)
    brief = choose_form(block.message, *list_block_forms(block))
    status = evolve(status, state=block.message, summary=brief, next_start_time=None)
    # The pass that met it first has reported it.
    is_new = summary is None or summary.reason != block.reason
    return Verdict(
        _set(facts, status, ConditionType.SUCCEEDED, "Unknown", block.reason, block.message),
        events=(warn(EventReason.BLOCKED, block.message),) if is_new else (),
    )


def report_deletion(facts: Pass, standing: PassState, waits_for: str) -> Verdict:
    """Describe what the deletion waits for."""
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
    """Note that nothing but the pipeline itself can change anything before the next wake."""
    summary = standing.status.find_condition(ConditionType.SUCCEEDED)
    is_plain = summary is not None and (summary.status != "Unknown" or summary.reason in _AT_REST)
    is_clear = not (standing.decided.actions or facts.view.refusals or facts.view.unread)
    # A later pass records that an end was sent.
    is_sent = not any(is_pending(facts.limits, past) for past in standing.status.attempts)
    return Verdict(is_at_rest=standing.active is None and is_plain and is_clear and is_sent)


def report_edit(facts: Pass, standing: PassState) -> Verdict:
    """Return whether what runs is what the spec says; only an edit is reported."""
    view, status = facts.view.pipeline, standing.status
    generation = view.status.observed_generation
    is_edited = view.has_status and generation is not None and generation != view.meta.generation
    summary = status.find_condition(ConditionType.SUCCEEDED)
    is_over = summary is not None and summary.status != "Unknown"
    old = status.find_condition(ConditionType.SPEC_APPLIED)
    waited = old is not None and old.reason == Reason.WAITS_FOR_NEXT_ATTEMPT
    # The next attempt is made from this spec.
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
    status, record = standing.status, standing.status.preflight
    # An edit since then is told in another way.
    if record is None or record.generation != facts.view.pipeline.meta.generation:
        return Verdict()
    is_awaited = status.next_attempt_time is not None and not facts.spec.suspend
    truth, reason = _PREFLIGHTS.get(record.verdict, ("True", Reason.APPLIED))
    # A check that no attempt waits for any more has nothing to report.
    if record.verdict is PreflightVerdict.PENDING and is_awaited:
        truth, reason = "Unknown", Reason.PREFLIGHT
    # A passed check is what users expect, so SpecApplied stays as it was.
    if record.verdict is PreflightVerdict.PASSED:
        return Verdict()
    message = reason.explain(record.message)
    return Verdict(_set(facts, status, ConditionType.SPEC_APPLIED, truth, reason, message))


def report_published(facts: Pass, standing: PassState) -> Verdict:
    """Tell whether the last complete run has met what the spec requires before publishing."""
    status, reported = standing.status, ConditionType.PUBLISHED
    # Without requirements `latest` follows every publication, and there is nothing to tell.
    if facts.spec.publish is None:
        return Verdict(evolve(status, conditions=drop_conditions(status.conditions, [reported])))
    summary = status.find_condition(ConditionType.SUCCEEDED)
    former = facts.view.pipeline.status.find_condition(ConditionType.SUCCEEDED)
    cause = status.retry_cause
    if summary is None or summary.status == "Unknown":
        return Verdict()
    if summary.status == "False" and cause is Cause.REQUIREMENTS_NOT_MET:
        message = standing.newest.status.message if standing.newest else summary.message
        return Verdict(_set(facts, status, reported, "False", cause.value, message))
    # Requirements that came after the end of the run were not looked at.
    if summary.status == "True" and (former is None or former.status != "True"):
        message = Reason.PUBLISHED.explain(_describe_published(facts, standing))
        return Verdict(_set(facts, status, reported, "True", Reason.PUBLISHED, message))
    return Verdict()


def _describe_published(facts: Pass, standing: PassState) -> str:
    status, publish, newest = standing.status, facts.spec.publish, standing.newest
    files = facts.spec.output_location
    output = f", files at {files}" if files else ""
    # Which revision was handed over only the driver knows, and says last.
    outcome = newest.status.outcome if newest is not None else None
    is_delivered = publish is not None and publish.to is not None
    more = f"; {outcome.message}" if is_delivered and outcome is not None else ""
    return f"`latest` points to {status.latest} on claim {status.volume_claim}{output}{more}"


def report_unknown(facts: Pass, standing: PassState) -> Verdict:
    """Tell which fields of the spec are ignored: its definition is newer than this operator."""
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
    """Keep this one, or none, of the conditions that are there only when they are true."""
    # An untrue condition is removed, not set to False: tools read its mere presence. A condition
    # that stays keeps its time, or each pass would write the status and so bring about the next.
    untrue = [type_ for type_ in _ONLY_WHEN_TRUE if type_ is not only]
    status = evolve(status, conditions=drop_conditions(status.conditions, untrue))
    return status if only is None else _set(facts, status, only, "True", reason, message)
