"""Selects ends of attempts that the operator reports to a lineage system, because no driver did.

A driver reports its own end, with rows and stages, and records in its outcome that it did. The
operator's report has less detail, so the operator does not report such an end again. An outcome
alone does not prove a report, because the parent of a killed driver also writes an outcome.

The records of ended attempts in the pipeline's status serve as an outbox. The write that counts an
attempt marks its report as pending, and each pass submits the report until it was sent or rejected,
so a killed operator loses no report. This module must not depend on the system that receives
reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptOutcome, AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import LineageState
from strandline_api.status.pipeline_status import PastAttemptRecord
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import AttemptEnd, PassPlan, SetFinalizer
from strandline_operator.model.view import AttemptObject, View

DELETED = "the attempt's object was deleted"
PIPELINE_DELETED = "the pipeline was deleted"


def begin_report(limits: Limits, status: AttemptStatus) -> LineageState | None:
    """Return the report state of a newly counted attempt, or None if no report is needed."""
    return LineageState.PENDING if limits.reports_lineage and not _is_reported(status) else None


def is_pending(limits: Limits, past: PastAttemptRecord) -> bool:
    """Return True if the end of an attempt has not been reported yet."""
    return limits.reports_lineage and past.lineage is LineageState.PENDING


def settle_reports(facts: Pass, standing: PassState) -> Verdict:
    """Record which pending reports have been sent or rejected."""
    status, states = standing.status, facts.view.lineage
    attempts = tuple(
        evolve(past, lineage=states.get(past.number, past.lineage))
        if is_pending(facts.limits, past)
        else past
        for past in status.attempts
    )
    return Verdict(evolve(status, attempts=attempts))


def list_ends(view: View, plan: PassPlan, limits: Limits, now: float) -> tuple[AttemptEnd, ...]:
    """Return the ends that the operator still has to report after this pass.

    Args:
        view: the state before the pass.
        plan: the new statuses and the actions.
        limits: the operator's settings.
        now: seconds since the epoch.
    """
    if not limits.reports_lineage:
        return ()
    records = (plan.pipeline or view.pipeline.status).attempts
    counted = {past.number for past in records}
    pending = [past for past in records if is_pending(limits, past)]
    uncounted = [attempt for attempt in view.attempts if attempt.spec.number not in counted]
    ends = (
        *_list_pending(view, plan, pending),
        *_list_frozen(view, plan, uncounted),
        *_list_let_go(view, plan, uncounted, now),
    )
    # A driver may have reported an end without leaving an outcome, because its pod was lost. Report
    # such an end again: receivers accept duplicates, but a missing end would leave the run open.
    return tuple(end for end in ends if not _is_reported(end.status))


def _is_reported(status: AttemptStatus) -> bool:
    return status.outcome is not None and status.outcome.lineage is True


def _list_pending(
    view: View, plan: PassPlan, pending: Iterable[PastAttemptRecord]
) -> Iterator[AttemptEnd]:
    """Yield counted attempts with pending reports, in full detail while their objects exist."""
    statuses = {attempt.meta.name: attempt.status for attempt in view.attempts}
    statuses.update(plan.attempts)
    for past in pending:
        status = statuses.get(past.name)
        # Without a final status of the attempt, use only the record in the pipeline's status.
        if status is None or not status.is_frozen:
            status = AttemptStatus(end_time=past.end_time, cause=past.cause, message=DELETED)
        yield _make_end(view, plan, past.name, past.run, past.number, status)


def _list_frozen(
    view: View, plan: PassPlan, uncounted: Iterable[AttemptObject]
) -> Iterator[AttemptEnd]:
    """Yield attempts that freeze in this pass but are never counted.

    Attempts outside of the current run, such as those of earlier runs, are not counted.
    """
    for attempt in uncounted:
        status = plan.attempts.get(attempt.meta.name)
        if status is not None and status.is_frozen and not attempt.status.is_frozen:
            spec = attempt.spec
            yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _list_let_go(
    view: View, plan: PassPlan, uncounted: Iterable[AttemptObject], now: float
) -> Iterator[AttemptEnd]:
    """Yield the attempts that are deleted together with a pipeline."""
    is_let_go = SetFinalizer(is_set=False) in plan.actions
    # Without a deletion, removing the finalizer only means that no attempt is running.
    if not (view.pipeline.meta.is_deleting and is_let_go):
        return
    for attempt in uncounted:
        spec, status = attempt.spec, _stop(view, attempt, now)
        yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _stop(view: View, attempt: AttemptObject, now: float) -> AttemptStatus:
    """Return the last status of an attempt that no later pass will process."""
    driver, status = view.driver, attempt.status
    last = driver.outcome or driver.log_outcome if driver else None
    reported = AttemptOutcome(lineage=last.lineage or None) if last else status.outcome
    # An end that was already observed keeps its time and cause.
    if status.end_time is not None:
        return evolve(status, outcome=reported)
    return evolve(
        status, outcome=reported, end_time=now, cause=Cause.INTERRUPTED, message=PIPELINE_DELETED
    )


def _make_end(
    view: View, plan: PassPlan, name: str, run: str, number: int, status: AttemptStatus
) -> AttemptEnd:
    meta, counted = view.pipeline.meta, plan.pipeline or view.pipeline.status
    return AttemptEnd(
        namespace=meta.namespace,
        name=name,
        pipeline=meta.name,
        pipeline_uid=meta.uid,
        run=run,
        number=number,
        status=status,
        retries=counted.retries,
    )
