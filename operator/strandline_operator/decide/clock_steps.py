"""Times that lie ahead of the clock by which they were written: it was wrong then, and was set.

Nothing may wait until such a time comes again. What is counted from one counts from now, and what
is due later is due as much later as it would have been. This room must not know who waits.
"""

from __future__ import annotations

from typing import TypeVar

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.enums import Trigger
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.records import Record

AnyRecord = TypeVar("AnyRecord", bound=Record)
# Clocks that are kept together differ by less, as those of two operators one after the other.
LEAST_STEP = 60.0


def settle_attempt(status: AttemptStatus, now: float) -> AttemptStatus:
    """Return an attempt's status with nothing of it ahead of now; the same where nothing is."""
    settled = _bound(status, ("start_time", "running_time", "end_time"), now)
    held_until, ended = status.held_until, status.end_time
    if held_until is None or ended is None or settled.end_time == ended:
        return settled
    return settled.model_copy(update={"held_until": held_until - (ended - now)})


def settle_pipeline(status: PipelineStatus, now: float) -> PipelineStatus:
    """Return a pipeline's status with nothing of it ahead of now, and what is due in its time."""
    clock = status.run_clock
    changes = {
        "next_attempt_time": _settle_due(status, now),
        "run_clock": None if clock is None else _bound(clock, ("paused_since",), now),
        "spot": tuple(_bound(group, ("on_demand_since",), now) for group in status.spot),
        "attempts": tuple(
            _bound(past, ("start_time", "end_time"), now) for past in status.attempts
        ),
    }
    return _bound(status, ("run_start_time",), now).model_copy(update=changes)


def _settle_due(status: PipelineStatus, now: float) -> float | None:
    due, ends = status.next_attempt_time, [past.end_time or 0.0 for past in status.attempts]
    if due is None or not is_ahead(due, now):
        return due
    # Only a retry is ever due later than when that was decided.
    if status.retry_trigger not in {None, Trigger.RETRY}:
        return now
    ended = max(ends, default=0.0)
    # It was decided by the clock as it was, if it follows an end of that time.
    return due - (ended - now) if is_ahead(ended, now) and due >= ended else due


def is_ahead(time: float | None, now: float) -> bool:
    """Return whether a time that was once now is later than now."""
    return time is not None and time - now > LEAST_STEP


def _bound(record: AnyRecord, names: tuple[str, ...], now: float) -> AnyRecord:
    late = {name: now for name in names if is_ahead(getattr(record, name), now)}
    return record.model_copy(update=late) if late else record
