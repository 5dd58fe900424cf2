"""Decides whether and until when a failed attempt is held: its pods are kept for inspection.

An attempt is held only if no other attempt follows, and any new start ends the hold. The next
attempt waits until held pods are gone, as for all other pods, so a hold that ends late costs time
but is safe. This module must not depend on how pods are removed.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline_api.law.retry import GiveUp
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.decide.run.requests import find_requests
from strandline_operator.decide.run.sequence import foresee
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState

# Seconds before a scheduled run at which a hold ends, so that the pods have terminated by then.
BEFORE_START = 120.0


def find_hold(facts: Pass, standing: PassState) -> Callable[[AttemptStatus], float | None]:
    """Return a function that returns when an ended attempt's hold ends, or None for no hold."""
    longest = facts.spec.hold_on_failure_seconds

    def find(attempt: AttemptStatus) -> float | None:
        # Only a failed attempt has pods to inspect, and only if the spec requests a hold.
        if longest is None or attempt.cause is None or attempt.end_time is None:
            return None
        if _is_over(facts, standing.status) or _is_followed(facts, standing, attempt):
            return None
        starts_at = standing.status.schedule.next_time if standing.status.schedule else None
        ends_at = attempt.end_time + longest
        return ends_at if starts_at is None else min(ends_at, starts_at - BEFORE_START)

    return find


def _is_over(facts: Pass, status: PipelineStatus) -> bool:
    """Return True if a cancellation, suspension, retry request, or new run ends the hold."""
    requests = find_requests(facts, status)
    is_asked = bool(requests.cancel or requests.retry)
    return is_asked or facts.spec.suspend or status.answered_run != facts.spec.run_id


def _is_followed(facts: Pass, standing: PassState, attempt: AttemptStatus) -> bool:
    newest = standing.newest
    # The attempt was already counted, so its successor has been decided.
    if newest is None or newest.spec.number <= standing.through:
        return True
    return not isinstance(foresee(facts, standing.status, newest, attempt), GiveUp)
