"""Counts the ended attempts of a run, and schedules the next attempt.

Each attempt is counted once: `retries.through` is the number of the last counted attempt. The next
attempt's number derives from it, so repeating an interrupted pass creates the same attempt.
"""

from __future__ import annotations

from dataclasses import replace

from strandline_api.api_model import evolve
from strandline_api.law.retry import (
    GiveUp,
    PastAttempt,
    RetryAt,
    Spent,
    count_spent,
    decide,
    describe_due,
)
from strandline_api.names import name_attempt
from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import LineageState, Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PastAttemptRecord, PipelineStatus
from strandline_api.status.usage.retry_counts import RetryCounts
from strandline_api.status.usage.run_clock import RunClock
from strandline_api.status.usage.work import RunWork
from strandline_operator.decide.attempts.ending import NO_ROOM
from strandline_operator.decide.attempts.fallback import describe_fallback, note_spot
from strandline_operator.decide.attempts.queueing import was_suspended
from strandline_operator.decide.obstacles.obstacles import find_unusable_defaults
from strandline_operator.decide.run.deadline import find_run_end
from strandline_operator.decide.run.lineage import begin_report, is_pending
from strandline_operator.decide.run.memory import raise_memory
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, add_event, warn
from strandline_operator.integrations.schedulers import has_queue
from strandline_operator.model.plan import Count
from strandline_operator.model.view import AttemptObject

SUSPEND = "suspend"  # source of evidence that the operator ended an attempt to suspend the pipeline


def begin_first_run(facts: Pass, standing: PassState) -> Verdict:
    """Start the first run of a pipeline, even if it already has attempts."""
    return Verdict() if standing.status.run else begin_run(facts, standing, facts.spec.run_id)


def begin_next_run(facts: Pass, standing: PassState) -> Verdict:
    """Start the run that a user requests with a new `runId`, once no attempt is running."""
    is_asked = standing.status.answered_run != facts.spec.run_id
    if not is_asked or standing.active is not None:
        return Verdict()
    return begin_run(facts, standing, facts.spec.run_id)


def begin_run(facts: Pass, standing: PassState, run: str) -> Verdict:
    """Reset the counters and make the first attempt of a run due now."""
    status = evolve(
        standing.status,
        run=run,
        # A scheduled run also satisfies the spec's `runId`, which must not start another run.
        requested_run="" if run == facts.spec.run_id else facts.spec.run_id,
        run_start_time=facts.now,
        memory={},
        memory_requested={},
        run_clock=RunClock(paused_since=facts.now) if facts.spec.suspend else None,
        retries=RetryCounts(through=_find_through(standing)),
        incidents=0,
        work=None,
        spot=(),
        next_attempt_time=facts.now,
        retry_cause=None,
        retry_trigger=Trigger.RUN,
        progress=None,
        state="",
    )
    reported = add_event(EventReason.RUN_STARTED, f"run {run!r} started")
    return Verdict(status, events=(reported,))


def _find_through(standing: PassState) -> int:
    """Return the number of the last attempt that does not belong to the new run."""
    numbers = (attempt.spec.number for attempt in standing.attempts if attempt.status.is_frozen)
    newest = max((attempt.spec.number for attempt in standing.attempts), default=0)
    # If the status was lost, an attempt may still be open. It becomes the new run's first attempt.
    return max(standing.through, *numbers, newest - 1, 0)


def count_attempt(facts: Pass, standing: PassState) -> Verdict:
    """Count the newest attempt once its status is frozen, and decide how the run continues."""
    attempt, before = standing.newest, standing.status.retries or RetryCounts()
    # Count an attempt only once, and only after its cause is final.
    if attempt is None or not attempt.status.is_frozen or attempt.spec.number <= before.through:
        return Verdict()
    past, attempt_status = _recall(attempt), attempt.status
    # The retry budget may depend on the namespace's defaults, so wait until they are readable.
    if past.cause is not None and not _is_free(attempt_status) and is_policy_unknown(facts):
        return Verdict()
    record = _record(attempt, past, begin_report(facts.limits, attempt_status))
    booked = _book(facts, standing.status, past, record)
    spot = note_spot(facts.spec.ray, booked.spot, attempt.spec, attempt_status, facts.now)
    fallbacks = describe_fallback(booked.spot, spot)
    incidents = booked.incidents + attempt_status.incidents
    work = _add_work(booked.work, attempt_status)
    booked = evolve(booked, incidents=incidents, spot=spot, work=work)
    events = tuple(add_event(EventReason.SPOT_FALLBACK, words) for words in fallbacks)
    counted = Verdict(booked, counts=_measure(attempt, before), events=events)
    # The operator ended the attempt to suspend the pipeline or to use other nodes, which is not a
    # failure and uses no retry.
    if _is_free(attempt_status):
        state = "; ".join(fallbacks) or booked.state
        resumed = evolve(
            booked, next_attempt_time=facts.now, retry_trigger=Trigger.RESUME, state=state
        )
        return counted.then(Verdict(resumed))
    # After success, no attempt follows.
    if attempt_status.cause is None:
        return counted.then(_report_success(booked, attempt))
    return counted.then(_follow_failure(facts, booked, attempt, past, before.spent))


def _add_work(before: RunWork | None, status: AttemptStatus) -> RunWork | None:
    """Add the work of an attempt to the run's work. A killed attempt has not reported its work."""
    outcome = status.outcome
    if outcome is None or outcome.work_seconds is None:
        return before
    return (before or RunWork()).add(outcome.work_seconds, outcome.work_lost)


def _report_success(status: PipelineStatus, attempt: AttemptObject) -> Verdict:
    outcome = f"attempt {attempt.spec.number} completed"
    events = (
        add_event(EventReason.ATTEMPT_SUCCEEDED, outcome, attempt.meta.name),
        add_event(EventReason.RUN_SUCCEEDED, f"run {status.run!r} succeeded"),
    )
    return Verdict(events=events)


def _follow_failure(
    facts: Pass, status: PipelineStatus, attempt: AttemptObject, past: PastAttempt, since: Spent
) -> Verdict:
    """Schedule the next attempt and its memory, or end the run."""
    raised, limited = raise_memory(facts, status, attempt.status)
    is_taken = _was_taken_back(facts, attempt.status)
    booked, message = raised.status or status, attempt.status.message
    planned = raised.then(_schedule(facts, booked, past, since, message, is_taken=is_taken))
    if not limited or planned.status is None:
        return planned
    # A retry with too little memory will probably fail too, so add the limit to the state.
    state = f"{planned.status.state}; {limited}"
    return planned.then(Verdict(evolve(planned.status, state=state)))


def is_policy_unknown(facts: Pass) -> bool:
    """Return True if the namespace's defaults, and so the retry policy, are unreadable."""
    return find_unusable_defaults(facts) is not None


def count_missing(facts: Pass, standing: PassState) -> Verdict:
    """Count a running attempt whose object was deleted, because its end can't be observed.

    Objects that remain of the attempt still block the next attempt.
    """
    status, number = standing.status, standing.status.attempt
    newest = max((attempt.spec.number for attempt in facts.view.attempts), default=0)
    # Skip an attempt that exists or was counted. Wait while the retry policy is unknown.
    if number <= max(standing.through, newest) or is_policy_unknown(facts):
        return Verdict()
    since = status.retries.spent if status.retries else Spent()
    past = PastAttempt(number, Cause.INTERRUPTED, ended=facts.now)
    record = PastAttemptRecord(
        number=number,
        name=name_attempt(facts.view.pipeline.meta.name, number),
        run=status.run,
        cause=past.cause,
        end_time=facts.now,
        lineage=begin_report(facts.limits, AttemptStatus()),
    )
    booked = _book(facts, status, past, record)
    counted = Verdict(booked, counts=(Count("attempts", str(past.cause)),))
    return counted.then(_schedule(facts, booked, past, since))


def measure_recovery(facts: Pass, standing: PassState) -> Verdict:
    """Measure the time from an attempt's end to the start of the next driver."""
    before, after = facts.newest, standing.newest
    if before is None or after is None or before.status.running_time is not None:
        return Verdict()
    running_time = after.status.running_time
    # Before a manual attempt, or a new run, the time was spent waiting for the user.
    if running_time is None or after.spec.trigger is not Trigger.RETRY:
        return Verdict()
    former = (
        attempt for attempt in standing.status.attempts if attempt.number == after.spec.previous
    )
    cause = str(after.spec.retry_cause or "")
    counts = (
        Count("recovery_seconds", cause, running_time - past_attempt_record.end_time)
        for past_attempt_record in former
        if past_attempt_record.end_time is not None
    )
    return Verdict(counts=tuple(counts))


def _record(
    attempt: AttemptObject, past: PastAttempt, lineage: LineageState | None
) -> PastAttemptRecord:
    return PastAttemptRecord(
        number=past.number,
        name=attempt.meta.name,
        run=attempt.spec.run,
        cause=past.cause,
        start_time=attempt.status.start_time,
        end_time=attempt.status.end_time,
        finished=past.finished,
        lineage=lineage,
    )


def _book(
    facts: Pass, status: PipelineStatus, past: PastAttempt, record: PastAttemptRecord
) -> PipelineStatus:
    """Add an attempt to the run's counters and history. The caller decides what follows."""
    counts = status.retries or RetryCounts()
    spent = count_spent(facts.view.policy, [past], counts.spent)
    others = [attempt for attempt in status.attempts if attempt.number != past.number]
    attempts, limit = [*others, record], facts.spec.attempt_history_limit
    # Keep attempts whose ends have not been reported to the lineage system yet.
    pending = [each for each in attempts[:-limit] if is_pending(facts.limits, each)]
    dropped = [each for each in attempts[:-limit] if each not in pending]
    return evolve(
        status,
        retries=RetryCounts.from_spent(spent, past.number),
        attempts=(*pending, *attempts[-limit:]),
        completed_runs=_list_runs(status, dropped),
        next_attempt_time=None,
        retry_cause=past.cause,
        retry_trigger=None,
    )


def _list_runs(status: PipelineStatus, dropped: list[PastAttemptRecord]) -> tuple[str, ...]:
    """Return the completed runs, including those that drop out of the history of attempts."""
    runs = [attempt.run for attempt in dropped if attempt.cause is None and attempt.run]
    return tuple(dict.fromkeys([*status.completed_runs, *runs]))


def _recall(attempt: AttemptObject) -> PastAttempt:
    status, outcome = attempt.status, attempt.status.outcome
    sources = outcome.sources if outcome else None
    finished = sources.finished if sources else (status.progress.finished if status.progress else 0)
    return PastAttempt(
        number=attempt.spec.number,
        cause=status.cause,
        ended=status.end_time or 0.0,
        finished=finished,
        remaining=outcome.remaining if outcome else None,
        is_manual=attempt.spec.trigger.is_by_hand,
        resets=attempt.spec.trigger is Trigger.RUN,
    )


def _is_free(status: AttemptStatus) -> bool:
    return any(record.source in {SUSPEND, NO_ROOM} for record in status.evidence)


def foresee(
    facts: Pass, status: PipelineStatus, attempt: AttemptObject, attempt_status: AttemptStatus
) -> RetryAt | GiveUp:
    """Return the retry decision for an uncounted attempt, as if its current cause were final."""
    past, since = _recall(replace(attempt, status=attempt_status)), status.retries or RetryCounts()
    is_taken = _was_taken_back(facts, attempt_status)
    return _ask_law(facts, status, past, since.spent, is_taken=is_taken)


def _was_taken_back(facts: Pass, status: AttemptStatus) -> bool:
    """Return whether a queue has suspended a running attempt."""
    labels = facts.view.pipeline.meta.labels
    return has_queue(facts.spec.ray, labels) and was_suspended(status)


def _ask_law(
    facts: Pass, status: PipelineStatus, past: PastAttempt, since: Spent, *, is_taken: bool
) -> RetryAt | GiveUp:
    """Apply the retry law to an ended attempt, considering queue and run deadline."""
    policy, uid = facts.view.policy, facts.view.pipeline.meta.uid
    decision = decide(policy, [past], facts.now, uid=uid, drawn=facts.drawn, since=since)
    # The queue decides when the attempt starts, so delaying the RayJob would only add to the wait.
    if isinstance(decision, RetryAt) and is_taken:
        decision = replace(decision, time=facts.now, delay=max(0.0, facts.now - past.ended))
    ends_at = find_run_end(facts, status)
    # An attempt that starts after the run's deadline would be pointless.
    if isinstance(decision, RetryAt) and ends_at is not None and decision.time > ends_at:
        return GiveUp(f"{decision.why}, which is after the run's deadline")
    return decision


def _schedule(
    facts: Pass,
    status: PipelineStatus,
    past: PastAttempt,
    since: Spent,
    message: str = "",
    *,
    is_taken: bool = False,
) -> Verdict:
    """Schedule the next attempt, or end the run."""
    decision = _ask_law(facts, status, past, since, is_taken=is_taken)
    words = f"attempt {past.number} ended with {past.cause}{message and ': '}{message}"
    reported = Verdict(events=(warn(EventReason.ATTEMPT_FAILED, words),))
    if isinstance(decision, RetryAt):
        return reported.then(_plan_retry(facts, status, decision))
    return reported.then(_give_up(facts, status, decision, past))


def _give_up(facts: Pass, status: PipelineStatus, decision: GiveUp, past: PastAttempt) -> Verdict:
    over = evolve(status, state=decision.why)
    reported = Verdict(over, events=(warn(EventReason.RUN_FAILED, decision.why),))
    # If the policy or the cause excludes retries, no budget was exhausted.
    if not decision.is_exhausted:
        return reported
    is_reported = facts.view.policy.emit_retry_events
    events = (warn(EventReason.RETRY_EXHAUSTED, decision.why),) if is_reported else ()
    return reported.then(
        Verdict(events=events, counts=(Count("retry_exhausted", str(past.cause)),))
    )


def _plan_retry(facts: Pass, status: PipelineStatus, decision: RetryAt) -> Verdict:
    due, cause = round(max(decision.time, facts.now), 3), decision.cause.value
    state = describe_due(decision, format_time(round(due))[11:19])
    planned = evolve(status, next_attempt_time=due, retry_trigger=Trigger.RETRY, state=state)
    is_reported = facts.view.policy.emit_retry_events
    return Verdict(
        planned,
        events=(add_event(EventReason.RETRY_SCHEDULED, state),) if is_reported else (),
        counts=(
            Count("retry_scheduled", cause),
            Count("retry_wait_seconds", cause, decision.delay),
        ),
    )


def _measure(attempt: AttemptObject, before: RetryCounts) -> tuple[Count, ...]:
    status, trigger = attempt.status, attempt.spec.trigger
    cause = status.cause.value if status.cause else "Completed"
    counts = [Count("attempts", cause)]
    if status.start_time is not None and status.end_time is not None:
        counts.append(Count("attempt_seconds", cause, status.end_time - status.start_time))
    work_lost = status.outcome.work_lost if status.outcome else None
    for name, seconds in work_lost.model_dump().items() if work_lost else ():
        counts += [Count("work_lost_seconds", name, seconds)] if seconds else []
    # Only success in an attempt that the operator scheduled counts as a successful retry.
    if status.cause is None and before.cause is not None and trigger is Trigger.RETRY:
        counts.append(Count("retry_succeeded", before.cause.value))
    return tuple(counts)
