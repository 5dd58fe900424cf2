"""Holds on failed attempts: whether their pods are kept for inspection, and until when.

An attempt is held only if no other attempt follows, and any new start ends the hold. The next
attempt waits for held pods as for all other pods, so a hold that ends late costs time but is safe.
The module must not depend on the way pods are removed.
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

# Pods take up to their grace period to terminate, and a scheduled run should find none.
BEFORE_START = 120.0


def find_hold(facts: Pass, standing: PassState) -> Callable[[AttemptStatus], float | None]:
    """Return a function from an ended attempt's status to the end of its hold, or None."""
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
    """Return whether a cancellation, suspension, retry, or new run ends the hold."""
    requests = find_requests(facts, status)
    is_asked = bool(requests.cancel or requests.retry)
    return is_asked or facts.spec.suspend or status.answered_run != facts.spec.run_id


def _is_followed(facts: Pass, standing: PassState, attempt: AttemptStatus) -> bool:
    newest = standing.newest
    # The successor of a counted attempt is already decided.
    if newest is None or newest.spec.number <= standing.through:
        return True
    return not isinstance(foresee(facts, standing.status, newest, attempt), GiveUp)
