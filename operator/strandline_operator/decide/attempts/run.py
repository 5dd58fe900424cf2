"""The run as a sequence of attempts: what has ended is counted, what follows gets its time.

An attempt is counted once: `retries.through` is the number of the last one that is. The next one's
number follows from it, so however often a pass is cut short, the same attempt is made.
"""

from __future__ import annotations

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
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PastAttemptRecord, RetryCounts
from strandline_api.status.run_clock import RunClock
from strandline_api.times import spell_time
from strandline_operator.decide.attempts.deadline import find_run_end
from strandline_operator.decide.memory import raise_memory
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.model.view import AttemptView

SUSPEND = "suspend"  # the word of evidence that an attempt was ended to hold the pipeline back


def begin_run(draft: Draft, spec: PipelineSpec) -> None:
    """Start counting anew and make the first attempt due at once."""
    through = _find_through(draft)
    draft.update(
        run=spec.run_id,
        run_start_time=draft.now,
        memory={},
        memory_requested={},
        run_clock=RunClock(paused_since=draft.now) if spec.suspend else None,
        retries=RetryCounts(through=through),
        incidents=0,
        next_attempt_time=draft.now,
        retry_cause=None,
        retry_trigger=Trigger.RUN,
        progress=None,
        state="",
    )
    draft.tell(EventReason.RUN_STARTED, f"run {spec.run_id} began")


def _find_through(draft: Draft) -> int:
    """The number of the last attempt that needs no counting any more."""
    counted = draft.status.retries.through if draft.status.retries else 0
    ended = (one.spec.number for one in draft.view.attempts if draft.status_of(one).is_frozen)
    newest = max((one.spec.number for one in draft.view.attempts), default=0)
    return max(counted, *ended, newest - 1, 0)


def count_attempt(draft: Draft, spec: PipelineSpec, attempt: AttemptView, drawn: float) -> None:
    """Count an attempt that is frozen, and fix what follows it."""
    status, counts = draft.status_of(attempt), draft.status.retries or RetryCounts()
    number = attempt.spec.number
    if not status.is_frozen or number <= counts.through:
        return
    past = _recall(attempt, status)
    record = PastAttemptRecord(
        number=number,
        name=attempt.meta.name,
        run=attempt.spec.run,
        cause=status.cause,
        start_time=status.start_time,
        end_time=status.end_time,
        finished=past.finished,
    )
    _book(draft, spec, past, record)
    draft.update(incidents=draft.status.incidents + status.incidents)
    _measure(draft, attempt, status, counts)
    if _is_suspension(status):
        draft.update(next_attempt_time=draft.now, retry_trigger=Trigger.RESUME)
    elif status.cause is not None:
        limited = raise_memory(draft, spec, status)
        _schedule(draft, spec, past, counts.spent, drawn)
        if limited:
            draft.update(state=f"{draft.status.state}; {limited}")
    else:
        draft.tell(EventReason.ATTEMPT_SUCCEEDED, status.message, attempt=attempt.meta.name)
        draft.tell(EventReason.RUN_SUCCEEDED, f"run {draft.status.run}: {status.message}")


def count_missing(draft: Draft, spec: PipelineSpec, drawn: float) -> None:
    """Count an attempt whose object somebody deleted while it went on: nothing tells how it ended.

    What it has left behind still holds its successor back, until that is gone too.
    """
    counts, number = draft.status.retries or RetryCounts(), draft.status.attempt
    newest = max((one.spec.number for one in draft.view.attempts), default=0)
    if number <= max(counts.through, newest):
        return
    past = PastAttempt(number, Cause.INTERRUPTED, ended=draft.now)
    name = name_attempt(draft.view.pipeline.meta.name, number)
    record = PastAttemptRecord(
        number=number, name=name, run=draft.status.run, cause=past.cause, end_time=draft.now
    )
    _book(draft, spec, past, record)
    draft.count("attempts", str(past.cause))
    _schedule(draft, spec, past, counts.spent, drawn)


def measure_recovery(draft: Draft, attempt: AttemptView, status: AttemptStatus) -> None:
    """How long it took from one attempt's end until the driver of the next one ran."""
    if status.running_time is None or attempt.status.running_time is not None:
        return
    if attempt.spec.trigger is not Trigger.RETRY:
        return
    before = [one.end_time for one in draft.status.attempts if one.number == attempt.spec.previous]
    for ended in before:
        if ended is not None:
            cause = str(attempt.spec.retry_cause or "")
            draft.count("recovery_seconds", cause, status.running_time - ended)


def _book(draft: Draft, spec: PipelineSpec, past: PastAttempt, record: PastAttemptRecord) -> None:
    """Add an attempt to the run's counts and history; what follows it is not fixed yet."""
    counts = draft.status.retries or RetryCounts()
    spent = count_spent(draft.view.policy, [past], counts.spent)
    kept = [one for one in draft.status.attempts if one.number != past.number]
    draft.update(
        retries=RetryCounts.of(spent, past.number),
        attempts=tuple([*kept, record][-spec.attempt_history_limit :]),
        next_attempt_time=None,
        retry_cause=past.cause,
        retry_trigger=None,
    )


def _recall(attempt: AttemptView, status: AttemptStatus) -> PastAttempt:
    outcome = status.outcome
    sources = outcome.sources if outcome else None
    finished = sources.finished if sources else (status.progress.finished if status.progress else 0)
    return PastAttempt(
        number=attempt.spec.number,
        cause=status.cause,
        ended=status.end_time or 0.0,
        finished=finished,
        remaining=outcome.remaining if outcome else None,
        is_manual=attempt.spec.trigger in {Trigger.MANUAL, Trigger.RESUME},
        resets=attempt.spec.trigger is Trigger.RUN,
    )


def _is_suspension(status: AttemptStatus) -> bool:
    return any(record.source == SUSPEND for record in status.evidence)


def _schedule(
    draft: Draft, spec: PipelineSpec, past: PastAttempt, since: Spent, drawn: float
) -> None:
    view = draft.view
    decision = decide(
        view.policy, [past], draft.now, uid=view.pipeline.meta.uid, drawn=drawn, since=since
    )
    ends_at = find_run_end(draft, spec)
    if isinstance(decision, RetryAt) and ends_at is not None and decision.time > ends_at:
        decision = GiveUp(f"{decision.why}, which is after the run's deadline")
    name, cause = f"attempt {past.number}", str(past.cause)
    if isinstance(decision, RetryAt):
        _plan_retry(draft, decision, name)
        return
    draft.update(state=decision.why)
    draft.tell(EventReason.ATTEMPT_FAILED, f"{name} ended with {cause}", is_warning=True)
    draft.tell(EventReason.RUN_FAILED, decision.why, is_warning=True)
    if decision.is_exhausted:
        draft.count("retry_exhausted", cause)
        if view.policy.emit_retry_events:
            draft.tell(EventReason.RETRY_EXHAUSTED, decision.why, is_warning=True)


def _plan_retry(draft: Draft, decision: RetryAt, name: str) -> None:
    due = round(max(decision.time, draft.now), 3)
    clock = spell_time(round(due))[11:19]
    state = describe_due(decision, clock)
    draft.update(next_attempt_time=due, retry_trigger=Trigger.RETRY, state=state)
    draft.count("retry_scheduled", decision.cause.value)
    draft.count("retry_wait_seconds", decision.cause.value, decision.delay)
    draft.tell(EventReason.ATTEMPT_FAILED, f"{name} ended with {decision.cause}", is_warning=True)
    if draft.view.policy.emit_retry_events:
        draft.tell(EventReason.RETRY_SCHEDULED, state)


def _measure(
    draft: Draft, attempt: AttemptView, status: AttemptStatus, before: RetryCounts
) -> None:
    cause = status.cause.value if status.cause else "Completed"
    draft.count("attempts", cause)
    if status.start_time is not None and status.end_time is not None:
        draft.count("attempt_seconds", cause, status.end_time - status.start_time)
    if status.cause is None and before.cause is not None and attempt.spec.trigger is Trigger.RETRY:
        draft.count("retry_succeeded", before.cause.value)
