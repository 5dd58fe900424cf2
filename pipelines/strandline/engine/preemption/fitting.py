"""Predicts which calls can finish before a driver or a node leaves, based on earlier tasks.

This module has no side effects. The caller decides what happens to other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from strandline.engine.core.ports import Leave
from strandline.engine.core.workers import Call, Worker

# Once a call has taken this multiple of its estimate, its end is considered unknown.
_PATIENT = 2.0

# Returns the seconds for a task that enters the worker's chain at a stage; None before the first
# result.
FindCost = Callable[[Worker, int], float | None]


class CallEnd(NamedTuple):
    """A call and its estimated end, by the driver's clock. The end is None if unknown."""

    call: Call
    at: float | None


def predict_ends(worker: Worker, find_cost: FindCost, now: float) -> list[CallEnd]:
    """Predict when a worker's calls end if it gets no further requests, oldest call first."""
    ends: list[CallEnd] = []
    at: float | None = None
    for call in worker.calls.values():
        if call.is_paused:  # a worker does not compute paused calls
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
    """Return whether the engine should wait for a call."""
    # Wait only briefly for a call without an estimate, which may be the first call of its stage.
    if end.at is None:
        return now < min(leave.prompt_at, leave.latest_at)
    return now < leave.latest_at and end.at <= leave.latest_at


def fits_next(worker: Worker, leaves_at: float, now: float) -> bool:
    """Return whether the next part of each paused call would be done by `leaves_at`."""
    paused = [call for call in worker.calls.values() if call.is_paused]
    parts = [_measure(call, None) or 0.0 for call in paused]
    return now + sum(parts) <= leaves_at


def is_late(worker: Worker, find_cost: FindCost, leave: Leave, now: float) -> bool:
    """Return whether a worker should abandon its current call, which may not end in time.

    The caller checks whether the stages of the worker can abandon a call.
    """
    if worker.is_leaving or not worker.is_working:
        return False
    at = predict_ends(worker, find_cost, now)[0].at
    return at is None or at > leave.latest_at


def is_hopeless(workers: Iterable[Worker], find_cost: FindCost, leave: Leave, now: float) -> bool:
    """Return whether there are running calls, but the engine should wait for none of them."""
    busy = [worker for worker in workers if predict_ends(worker, find_cost, now)]
    # Wait for a worker that abandons its call, because it may still return finished results.
    if any(worker.is_leaving for worker in busy) and now < leave.latest_at:
        return False
    ends = [end for worker in busy for end in predict_ends(worker, find_cost, now)]
    return bool(ends) and not any(fits(end, leave, now) for end in ends)


def _measure(call: Call, cost: float | None) -> float | None:
    """Return the estimated seconds of a call, or of its current part. Return None if unknown."""
    if call.counts.calls:  # use the average of the parts that the call has returned
        return call.counts.seconds / call.counts.calls
    return None if cost is None else cost * len(call.batch)
