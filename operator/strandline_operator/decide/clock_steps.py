"""Repairs timestamps in the future, which a wrong clock wrote before it was corrected.

Without the repair, a wait would last until the clock reaches the timestamp. Timers restart now, and
due times move by the same amount. This module must not depend on the purpose of a wait.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.enums import Trigger
from strandline_api.status.pipeline_status import PipelineStatus

# Minimum difference in seconds that proves a wrong clock. Synchronized clocks, such as those of two
# successive operators, differ by less.
LEAST_STEP = 60.0


def settle_attempt(status: AttemptStatus, now: float) -> AttemptStatus:
    """Return an attempt's status with timestamps in the future replaced by the current time."""
    settled = evolve(
        status,
        start_time=_bound(status.start_time, now),
        running_time=_bound(status.running_time, now),
        end_time=_bound(status.end_time, now),
        driver_end_time=_bound(status.driver_end_time, now),
        losses=tuple(evolve(loss, time=_bound(loss.time, now)) for loss in status.losses),
    )
    held_until, end_time = status.held_until, status.end_time
    # The end of a hold derives from the end of its attempt, so move it only with that end.
    if held_until is None or end_time is None or settled.end_time == end_time:
        return settled
    return evolve(settled, held_until=held_until - (end_time - now))


def settle_pipeline(status: PipelineStatus, now: float) -> PipelineStatus:
    """Return a pipeline's status with future timestamps replaced, and due times shifted."""
    clock, defaults = status.run_clock, status.defaults
    return evolve(
        status,
        run_start_time=_bound(status.run_start_time, now),
        next_attempt_time=_settle_due(status, now),
        run_clock=clock and evolve(clock, paused_since=_bound(clock.paused_since, now)),
        defaults=defaults and evolve(defaults, missing_since=_bound(defaults.missing_since, now)),
        spot=tuple(
            evolve(
                group,
                on_demand_since=_bound(group.on_demand_since, now),
                no_room_since=_bound(group.no_room_since, now),
            )
            for group in status.spot
        ),
        attempts=tuple(
            evolve(
                past, start_time=_bound(past.start_time, now), end_time=_bound(past.end_time, now)
            )
            for past in status.attempts
        ),
    )


def _settle_due(status: PipelineStatus, now: float) -> float | None:
    due, ends = status.next_attempt_time, [past.end_time or 0.0 for past in status.attempts]
    if due is None or not is_ahead(due, now):
        return due
    # Only retries are scheduled for a future time, so other attempts start now.
    if status.retry_trigger not in {None, Trigger.RETRY}:
        return now
    last_end = max(ends, default=0.0)
    # If the last end is in the future, the same wrong clock determined the due time.
    return due - (last_end - now) if is_ahead(last_end, now) and due >= last_end else due


def is_ahead(time: float | None, now: float) -> bool:
    """Return True if the timestamp of a past event is in the future."""
    return time is not None and time - now > LEAST_STEP


def _bound(time: float | None, now: float) -> float | None:
    return now if is_ahead(time, now) else time
