"""Which ends of attempts the operator reports to a lineage system: those without another reporter.

A driver reports its own end, with rows and stages that it alone knows, and says so in its outcome;
of such an end nothing is said here, since a second one could only know less. That there is an
outcome shows nothing: the parent of a driver that was killed leaves one too. It must not know
which system listens, if any does.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptOutcome, AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_operator.model.plan import AttemptEnd, PassPlan, SetFinalizer
from strandline_operator.model.view import AttemptObject, View

DELETED = "the attempt's object was deleted while it was running"
PIPELINE_DELETED = "the pipeline was deleted"


def list_ends(view: View, plan: PassPlan, now: float) -> tuple[AttemptEnd, ...]:
    """Return the attempts that are over from this pass on, as far as the operator reports them.

    Args:
        view: how things stood.
        plan: the statuses that replace those, and what is done.
        now: seconds since the epoch.
    """
    ends = (*_list_frozen(view, plan), *_list_missing(view, plan), *_list_let_go(view, plan, now))
    # A driver may have reported an end whose outcome was lost with its pod: the same run then ends
    # twice, which listeners bear, rather than never.
    return tuple(end for end in ends if not _is_reported(end.status))


def _is_reported(status: AttemptStatus) -> bool:
    return status.outcome is not None and status.outcome.lineage is True


def _list_frozen(view: View, plan: PassPlan) -> Iterator[AttemptEnd]:
    """Yield attempts whose cause becomes final: until then a better one may be found."""
    for attempt in view.attempts:
        status = plan.attempts.get(attempt.meta.name)
        if status is not None and status.is_frozen and not attempt.status.is_frozen:
            spec = attempt.spec
            yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _list_missing(view: View, plan: PassPlan) -> Iterator[AttemptEnd]:
    """Yield attempts that are counted now and have no object any more to become final."""
    counted = {past.number for past in view.pipeline.status.attempts}
    present = {attempt.spec.number for attempt in view.attempts}
    for past in plan.pipeline.attempts if plan.pipeline else ():
        if past.number not in counted | present:
            status = AttemptStatus(end_time=past.end_time, cause=past.cause, message=DELETED)
            yield _make_end(view, plan, past.name, past.run, past.number, status)


def _list_let_go(view: View, plan: PassPlan, now: float) -> Iterator[AttemptEnd]:
    """Yield the attempts that a deleted pipeline takes along when it is let go of."""
    is_let_go = SetFinalizer(is_set=False) in plan.actions
    # A pipeline that is not deleted is released as well, when no attempt is under way.
    if not (view.pipeline.meta.is_deleting and is_let_go):
        return
    for attempt in view.attempts:
        if not attempt.status.is_frozen:
            spec, status = attempt.spec, _stop(view, attempt, now)
            yield _make_end(view, plan, attempt.meta.name, spec.run, spec.number, status)


def _stop(view: View, attempt: AttemptObject, now: float) -> AttemptStatus:
    """Return the status of an attempt that no later pass judges."""
    driver, status = view.driver, attempt.status
    last = driver.outcome or driver.log_outcome if driver else None
    reported = AttemptOutcome(lineage=last.lineage or None) if last else status.outcome
    # An end that was seen keeps its own time and cause.
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
