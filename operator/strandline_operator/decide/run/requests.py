"""Handles user requests by annotation: cancel the run, retry, or repair.

A request stays open until the operator has carried it out, or until it has become meaningless. Only
then does the status record the request as handled, so requests are neither lost while an attempt is
ending nor carried out twice.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.names import CANCEL_ANNOTATION, REPAIR_ANNOTATION, RETRY_ANNOTATION
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.usage.retry_counts import RetryCounts
from strandline_operator.decide.run.dispatch import withdraw_attempt
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, add_event
from strandline_operator.model.view import AttemptObject


def note_first_requests(facts: Pass, standing: PassState) -> Verdict:
    """Treat the annotations of a new pipeline as handled."""
    if facts.view.pipeline.has_status:
        return Verdict()
    # A copied manifest contains the annotations of the original pipeline, where they were handled.
    return Verdict(_handle(standing.status, _read_asked(facts)))


def forget_withdrawn(facts: Pass, standing: PassState) -> Verdict:
    """Forget handled requests whose annotations were removed, so that users can repeat them."""
    requests, handled = _read_asked(facts), standing.status.handled or HandledTokens()
    remaining = HandledTokens(
        retry=handled.retry if requests.retry else "",
        cancel=handled.cancel if requests.cancel else "",
        repair=handled.repair if requests.repair else "",
    )
    return Verdict(_handle(standing.status, remaining))


def find_requests(facts: Pass, status: PipelineStatus) -> HandledTokens:
    """Return the requests that were not handled yet."""
    requests, handled = _read_asked(facts), status.handled or HandledTokens()
    # An attempt can be ended despite an invalid spec, but the next attempt needs a valid spec.
    is_readable = facts.view.pipeline.spec is not None
    return HandledTokens(
        retry=requests.retry if is_readable and requests.retry != handled.retry else "",
        cancel=requests.cancel if requests.cancel != handled.cancel else "",
        repair=requests.repair if is_readable and requests.repair != handled.repair else "",
    )


def settle_under_way(facts: Pass, standing: PassState) -> Verdict:
    """Mark requests as handled that ended the current attempt or that it already satisfies."""
    attempt, requests = facts.newest, find_requests(facts, standing.status)
    # `answer` handles requests between attempts.
    if attempt is None or attempt.status.is_frozen:
        return Verdict()
    if attempt.status.end_time is None:
        # A running attempt satisfies a retry request, but does not search for damage, so a repair
        # waits for the next attempt.
        settled = HandledTokens(retry=requests.retry, cancel=requests.cancel)
        return Verdict(_settle(standing.status, settled))
    # An earlier operator process ended the attempt, but was killed before it wrote the status.
    if requests.cancel and _was_ended_by(attempt, requests.cancel):
        return Verdict(_settle(standing.status, HandledTokens(cancel=requests.cancel)))
    return Verdict()


def describe_cancel(token: str) -> str:
    """Describe the cancellation of a run or an attempt by a request."""
    return f"cancelled by annotation {CANCEL_ANNOTATION}={token}"


def answer(facts: Pass, standing: PassState) -> Verdict:
    """Handle requests while no attempt is running."""
    status, requests = standing.status, find_requests(facts, standing.status)
    newest = standing.newest
    # `settle_under_way` handles requests during an attempt.
    if standing.active is not None:
        return Verdict()
    # First decide what follows the ended attempt, which is not counted yet.
    if newest is not None and newest.spec.number > standing.through:
        return Verdict()
    if requests.cancel:
        cancelled = _answer_cancel(status, requests)
        # A cancellation that withdrew a due attempt also answers a simultaneous retry request.
        if cancelled.events or not (requests.retry or requests.repair):
            return cancelled
        status = cancelled.status or status
    if requests.retry or requests.repair:
        return _answer_retry(facts, status, requests)
    return Verdict()


def _answer_retry(facts: Pass, status: PipelineStatus, requests: HandledTokens) -> Verdict:
    """Schedule an attempt for now. A repair is a kind of retry."""
    settled = _settle(status, HandledTokens(retry=requests.retry, repair=requests.repair))
    name = REPAIR_ANNOTATION if requests.repair else RETRY_ANNOTATION
    words = f"requested by annotation {name}={requests.repair or requests.retry}"
    reported = add_event(EventReason.RETRY_REQUESTED, words)
    due = evolve(
        settled,
        next_attempt_time=facts.now,
        retry_trigger=Trigger.REPAIR if requests.repair else Trigger.MANUAL,
        retries=status.retries or RetryCounts(),
    )
    return Verdict(due, events=(reported,))


def _answer_cancel(status: PipelineStatus, requests: HandledTokens) -> Verdict:
    """Withdraw the due attempt."""
    settled = _settle(status, HandledTokens(cancel=requests.cancel))
    if status.next_attempt_time is None:
        return Verdict(settled)
    words = describe_cancel(requests.cancel)
    # Also mark a simultaneous retry request as handled, because it would restart the cancelled run.
    settled = _settle(settled, HandledTokens(retry=requests.retry, repair=requests.repair))
    reported = add_event(EventReason.RUN_CANCELLED, words)
    over = withdraw_attempt(settled, Cause.USER_CANCELLED, words)
    return Verdict(over, events=(reported,))


def _read_asked(facts: Pass) -> HandledTokens:
    return HandledTokens.from_annotations(facts.view.pipeline.meta.annotations)


def _was_ended_by(attempt: AttemptObject, token: str) -> bool:
    outcome = describe_cancel(token)
    records = (each for each in attempt.status.evidence if each.cause is Cause.USER_CANCELLED)
    # If the attempt had not started, the obstacle follows in the same message.
    return any(f"{record.message}; ".startswith(f"{outcome}; ") for record in records)


def _settle(status: PipelineStatus, requests: HandledTokens) -> PipelineStatus:
    """Return the status with these requests marked as handled."""
    before = status.handled or HandledTokens()
    handled = HandledTokens(
        retry=requests.retry or before.retry,
        cancel=requests.cancel or before.cancel,
        repair=requests.repair or before.repair,
    )
    return _handle(status, handled)


def _handle(status: PipelineStatus, handled: HandledTokens) -> PipelineStatus:
    return evolve(status, handled=handled)
