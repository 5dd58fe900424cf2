"""Whether the pods of an attempt that has failed are kept for somebody to look, and until when.

Only where no attempt follows: no start waits for a hold, and each ends it. The next
attempt waits for held pods as it waits for any, so a hold that ends late costs time and is no
danger. This room must not know how pods are removed.
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

# Pods go within the grace of their drivers; a run that is due by the clock must find none.
BEFORE_START = 120.0


def find_hold(facts: Pass, standing: PassState) -> Callable[[AttemptStatus], float | None]:
    """Return what tells until when an attempt that ended so is held; None: it is not."""
    longest = facts.spec.hold_on_failure_seconds

    def find(attempt: AttemptStatus) -> float | None:
        # Only a failed attempt has pods worth a look, and only on request.
        if longest is None or attempt.cause is None or attempt.end_time is None:
            return None
        if _is_over(facts, standing.status) or _is_followed(facts, standing, attempt):
            return None
        starts_at = standing.status.schedule.next_time if standing.status.schedule else None
        ends_at = attempt.end_time + longest
        return ends_at if starts_at is None else min(ends_at, starts_at - BEFORE_START)

    return find


def _is_over(facts: Pass, status: PipelineStatus) -> bool:
    """Return whether the pods are to go, or something else is to start."""
    requests = find_requests(facts, status)
    is_asked = bool(requests.cancel or requests.retry)
    return is_asked or facts.spec.suspend or status.answered_run != facts.spec.run_id


def _is_followed(facts: Pass, standing: PassState, attempt: AttemptStatus) -> bool:
    newest = standing.newest
    # A counted attempt has decided its successor already.
    if newest is None or newest.spec.number <= standing.through:
        return True
    return not isinstance(foresee(facts, standing.status, newest, attempt), GiveUp)
