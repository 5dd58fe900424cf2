"""What people ask for by annotation: to end the run, or for an attempt now.

A request stands until it was acted upon, or there is nothing left that it could mean; only then is
it in the status as handled, so that none is lost while an attempt goes, and none acts twice.
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
    """Take what annotations a new pipeline came with for answered."""
    # A copy of a manifest has the annotations of its original, which were answered there.
    if facts.view.pipeline.has_status:
        return Verdict()
    return Verdict(_handle(standing.status, _read_asked(facts)))


def forget_withdrawn(facts: Pass, standing: PassState) -> Verdict:
    """Forget what was handled and is not asked for any more: it may be asked for again."""
    requests, handled = _read_asked(facts), standing.status.handled or HandledTokens()
    remaining = HandledTokens(
        retry=handled.retry if requests.retry else "",
        cancel=handled.cancel if requests.cancel else "",
        repair=handled.repair if requests.repair else "",
    )
    return Verdict(_handle(standing.status, remaining))


def find_requests(facts: Pass, status: PipelineStatus) -> HandledTokens:
    """Find what is asked for and was not acted upon."""
    requests, handled = _read_asked(facts), status.handled or HandledTokens()
    # An attempt can be ended whatever the spec says; the next one waits until that can be read.
    is_readable = facts.view.pipeline.spec is not None
    return HandledTokens(
        retry=requests.retry if is_readable and requests.retry != handled.retry else "",
        cancel=requests.cancel if requests.cancel != handled.cancel else "",
        repair=requests.repair if is_readable and requests.repair != handled.repair else "",
    )


def settle_under_way(facts: Pass, standing: PassState) -> Verdict:
    """Note what an attempt that was going on has been ended by, and that it needed no retry."""
    attempt, requests = facts.newest, find_requests(facts, standing.status)
    # Then it is for the next decider to answer.
    if attempt is None or attempt.status.is_frozen:
        return Verdict()
    if attempt.status.end_time is None:
        # A running attempt does not look for damage, so a repair waits for the next one.
        settled = HandledTokens(retry=requests.retry, cancel=requests.cancel)
        return Verdict(_settle(standing.status, settled))
    # The operator that ended the attempt was killed before it wrote this.
    if requests.cancel and _was_ended_by(attempt, requests.cancel):
        return Verdict(_settle(standing.status, HandledTokens(cancel=requests.cancel)))
    return Verdict()


def describe_cancel(token: str) -> str:
    """Describe the cancellation of a run or an attempt by a request."""
    return f"cancelled by annotation {CANCEL_ANNOTATION}={token}"


def answer(facts: Pass, standing: PassState) -> Verdict:
    """Act on requests where no attempt is under way."""
    status, requests = standing.status, find_requests(facts, standing.status)
    newest = standing.newest
    # Requests to a running attempt are settled where it is followed.
    if standing.active is not None:
        return Verdict()
    # An attempt that is over and not counted yet decides first what follows.
    if newest is not None and newest.spec.number > standing.through:
        return Verdict()
    if requests.cancel:
        cancelled = _answer_cancel(status, requests)
        # A cancel that took a due attempt back has answered the retry in the same breath.
        if cancelled.events or not (requests.retry or requests.repair):
            return cancelled
        status = cancelled.status or status
    if requests.retry or requests.repair:
        return _answer_retry(facts, status, requests)
    return Verdict()


def _answer_retry(facts: Pass, status: PipelineStatus, requests: HandledTokens) -> Verdict:
    """Make an attempt due at once; one that repairs is a retry, too."""
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
    """Take back the attempt that is due."""
    settled = _settle(status, HandledTokens(cancel=requests.cancel))
    if status.next_attempt_time is None:
        return Verdict(settled)
    words = describe_cancel(requests.cancel)
    # A retry that is asked for in the same breath would start what was ended.
    settled = _settle(settled, HandledTokens(retry=requests.retry, repair=requests.repair))
    reported = add_event(EventReason.RUN_CANCELLED, words)
    over = withdraw_attempt(settled, Cause.USER_CANCELLED, words)
    return Verdict(over, events=(reported,))


def _read_asked(facts: Pass) -> HandledTokens:
    return HandledTokens.of(facts.view.pipeline.meta.annotations)


def _was_ended_by(attempt: AttemptObject, token: str) -> bool:
    outcome = describe_cancel(token)
    records = (each for each in attempt.status.evidence if each.cause is Cause.USER_CANCELLED)
    # The obstacle to an attempt that had not started follows the request.
    return any(f"{record.message}; ".startswith(f"{outcome}; ") for record in records)


def _settle(status: PipelineStatus, requests: HandledTokens) -> PipelineStatus:
    """Return the status with those requests handled beside what was."""
    before = status.handled or HandledTokens()
    handled = HandledTokens(
        retry=requests.retry or before.retry,
        cancel=requests.cancel or before.cancel,
        repair=requests.repair or before.repair,
    )
    return _handle(status, handled)


def _handle(status: PipelineStatus, handled: HandledTokens) -> PipelineStatus:
    return evolve(status, handled=handled)
