"""What people ask for by annotation: to end the run, or for an attempt now.

A request stands until it was acted upon, or there is nothing left that it could mean; only then is
it in the status as handled, so that none is lost while an attempt goes, and none acts twice.
"""

from __future__ import annotations

from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import HandledTokens, RetryCounts
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.model.view import AttemptView


def note_first_requests(draft: Draft) -> None:
    """Take what annotations a new pipeline came with for answered."""
    if not draft.view.pipeline.has_status:
        draft.update(handled=HandledTokens.of(draft.view.pipeline.meta.annotations))


def read_requests(draft: Draft) -> HandledTokens:
    """What is asked for and was not acted upon; what was there at first asks nothing."""
    note_first_requests(draft)
    asked = HandledTokens.of(draft.view.pipeline.meta.annotations)
    known = draft.status.handled or HandledTokens()
    # What was taken back may be asked for again.
    draft.update(
        handled=HandledTokens(
            retry=known.retry if asked.retry else "", cancel=known.cancel if asked.cancel else ""
        )
    )
    return HandledTokens(
        retry=asked.retry if asked.retry != known.retry else "",
        cancel=asked.cancel if asked.cancel != known.cancel else "",
    )


def settle_under_way(draft: Draft, requests: HandledTokens, attempt: AttemptView) -> None:
    """Note what an attempt that was going on has been ended by, and that it needed no retry."""
    if attempt.status.end_time is None:
        _settle(draft, requests)
    elif requests.cancel and _was_ended_by(attempt, requests.cancel):
        # Whoever ended it was killed before this was written.
        _settle(draft, HandledTokens(cancel=requests.cancel))


def spell_cancel(token: str) -> str:
    """What is said of a run or an attempt that was ended by a request."""
    return f"cancelled: {token}"


def answer(draft: Draft, requests: HandledTokens) -> None:
    """Act on requests where no attempt is under way."""
    if requests.cancel and answer_cancel(draft, requests):
        _settle(draft, HandledTokens(retry=requests.retry))  # that would start what was ended
    elif requests.retry:
        _settle(draft, HandledTokens(retry=requests.retry))
        draft.update(
            next_attempt_time=draft.now,
            retry_trigger=Trigger.MANUAL,
            retries=draft.status.retries or RetryCounts(),
        )
        draft.tell(EventReason.RETRY_REQUESTED, f"asked for: {requests.retry}")


def answer_cancel(draft: Draft, requests: HandledTokens) -> bool:
    """Take back the attempt that is due; whether one was."""
    _settle(draft, HandledTokens(cancel=requests.cancel))
    if draft.status.next_attempt_time is None:
        return False
    draft.update(
        next_attempt_time=None,
        retry_trigger=None,
        retry_cause=Cause.USER_CANCELLED,
        state=spell_cancel(requests.cancel),
    )
    draft.tell(EventReason.RUN_CANCELLED, spell_cancel(requests.cancel))
    return True


def _was_ended_by(attempt: AttemptView, token: str) -> bool:
    said = spell_cancel(token)
    sights = attempt.status.evidence
    return any(one.cause is Cause.USER_CANCELLED and one.message == said for one in sights)


def _settle(draft: Draft, requests: HandledTokens) -> None:
    known = draft.status.handled or HandledTokens()
    draft.update(
        handled=HandledTokens(
            retry=requests.retry or known.retry, cancel=requests.cancel or known.cancel
        )
    )
