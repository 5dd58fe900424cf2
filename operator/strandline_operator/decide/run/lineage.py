"""Ends of attempts that the operator reports to a lineage system, because no driver reports them.

A driver reports its own end, with rows and stages, and records that in its outcome. The operator
does not repeat such an end, because it has less detail. An outcome alone proves nothing: the parent
of a killed driver also writes one.

The record of an ended attempt in the pipeline's status is the outbox. The write that counts the
attempt marks its report as pending, and each pass hands over the end until the report was sent or
refused. A killed operator thus loses no end. The module must not depend on the system that receives
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
    """Return whether an end has not been sent yet."""
    return limits.reports_lineage and past.lineage is LineageState.PENDING


def settle_reports(facts: Pass, standing: PassState) -> Verdict:
    """Record which pending ends have been sent or refused."""
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
    # A driver may have reported an end although the outcome was lost with the driver's pod.
    # Receivers accept two ends of a run, so a duplicate is better than a missing end.
    return tuple(end for end in ends if not _is_reported(end.status))


def _is_reported(status: AttemptStatus) -> bool:
    return status.outcome is not None and status.outcome.lineage is True


def _list_pending(
    view: View, plan: PassPlan, pending: Iterable[PastAttemptRecord]
) -> Iterator[AttemptEnd]:
    """Yield counted attempts, with full details while their objects exist."""
    statuses = {attempt.meta.name: attempt.status for attempt in view.attempts}
    statuses.update(plan.attempts)
    for past in pending:
        status = statuses.get(past.name)
        # Without a final status, only the record in the pipeline's status is reliable.
        if status is None or not status.is_frozen:
            status = AttemptStatus(end_time=past.end_time, cause=past.cause, message=DELETED)
        yield _make_end(view, plan, past.name, past.run, past.number, status)


def _list_frozen(
    view: View, plan: PassPlan, uncounted: Iterable[AttemptObject]
) -> Iterator[AttemptEnd]:
    """Yield attempts outside the current run as they freeze, because no later pass counts them."""
    for attempt in uncounted:
        status = plan.attempts.get(attempt.meta.name)
        if status is not None and status.is_frozen and not attempt.status.is_frozen:
            spec = attempt.spec
            yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _list_let_go(
    view: View, plan: PassPlan, uncounted: Iterable[AttemptObject], now: float
) -> Iterator[AttemptEnd]:
    """Yield the attempts that are deleted together with a released pipeline."""
    is_let_go = SetFinalizer(is_set=False) in plan.actions
    # Not a deletion: the finalizer is also removed from a pipeline without a running attempt.
    if not (view.pipeline.meta.is_deleting and is_let_go):
        return
    for attempt in uncounted:
        spec, status = attempt.spec, _stop(view, attempt, now)
        yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _stop(view: View, attempt: AttemptObject, now: float) -> AttemptStatus:
    """Return the final status of an attempt that no later pass judges."""
    driver, status = view.driver, attempt.status
    last = driver.outcome or driver.log_outcome if driver else None
    reported = AttemptOutcome(lineage=last.lineage or None) if last else status.outcome
    # An observed end keeps its time and cause.
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
