"""Which calls can still end before a driver or a node leaves, by the times of earlier tasks. Pure.

It must not know which of them leaves, nor what becomes of calls that don't fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from strandline.engine.core.ports import Leave
from strandline.engine.core.workers import Call, Worker

# A call may take so many times what it was expected to; after that its end is anybody's guess.
_PATIENT = 2.0

# Seconds of a task that goes to a stage of the worker's chain; None before the first has ended.
FindCost = Callable[[Worker, int], float | None]


class CallEnd(NamedTuple):
    """A call and when it is expected to end, by the driver's clock; None: not known."""

    call: Call
    at: float | None


def predict_ends(worker: Worker, find_cost: FindCost, now: float) -> list[CallEnd]:
    """Return when the calls of a worker end that is asked for nothing more, oldest first."""
    ends: list[CallEnd] = []
    at: float | None = None
    for call in worker.calls.values():
        if call.is_paused:  # a paused call has no part in the making
            continue
        seconds = _measure(call, find_cost(worker, call.entry[0]))
        if not ends:
            spent = now - worker.busy_since
            is_known = seconds is not None and spent <= _PATIENT * seconds
            at = now + max(0.0, (seconds or 0.0) - spent) if is_known else None
        elif at is not None:
            at = None if seconds is None else at + seconds
        ends.append(CallEnd(call, at))
    return ends


def fits(end: CallEnd, leave: Leave, now: float) -> bool:
    """Return whether a call is to be waited for."""
    # The call may be the first of its stage: a moment is all that it can be given.
    if end.at is None:
        return now < min(leave.prompt_at, leave.latest_at)
    return now < leave.latest_at and end.at <= leave.latest_at


def fits_next(worker: Worker, leaves_at: float, now: float) -> bool:
    """Return whether the next part of each answer that goes on would be made by then."""
    paused = [call for call in worker.calls.values() if call.is_paused]
    parts = [_measure(call, None) or 0.0 for call in paused]
    return now + sum(parts) <= leaves_at


def is_late(worker: Worker, find_cost: FindCost, leave: Leave, now: float) -> bool:
    """Return whether a worker was not asked to leave its call, and is not known to end it in time.

    The caller checks whether the stages of the worker can leave a call early.
    """
    if worker.is_leaving or not worker.is_working:
        return False
    at = predict_ends(worker, find_cost, now)[0].at
    return at is None or at > leave.latest_at


def is_hopeless(workers: Iterable[Worker], find_cost: FindCost, leave: Leave, now: float) -> bool:
    """Return whether workers have calls, and none of these is to be waited for."""
    busy = [worker for worker in workers if predict_ends(worker, find_cost, now)]
    # A worker that leaves its call may still keep answers.
    if any(worker.is_leaving for worker in busy) and now < leave.latest_at:
        return False
    ends = [end for worker in busy for end in predict_ends(worker, find_cost, now)]
    return bool(ends) and not any(fits(end, leave, now) for end in ends)


def _measure(call: Call, cost: float | None) -> float | None:
    """Return seconds that a call, or its present part, takes."""
    if call.counts.calls:  # the call has answered in parts, so the next one takes as long as those
        return call.counts.seconds / call.counts.calls
    return None if cost is None else cost * len(call.batch)
