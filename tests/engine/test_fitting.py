"""Before a node or driver leaves, it waits for the calls that are expected to end in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.core.ports import Leave
from strandline.engine.core.workers import Call, Worker
from strandline.engine.preemption.fitting import fits, is_hopeless, is_late, predict_ends
from strandline.plan.receipt import StageCounts
from test_flow import make_slots

seconds = st.floats(0.01, 1e4)


def make_worker(*sizes: int, busy_since: float = 0.0) -> Worker:
    """Return a worker with a call per size. The first call has been running since `busy_since`."""
    worker = Worker(0, "actor", busy_since=busy_since)
    for number, size in enumerate(sizes):
        worker.calls[number] = Call(0, worker, make_slots(size), None, number, size_in=size)
    return worker


def find_numbers(worker: Worker, cost: float | None, leave: Leave, now: float) -> list[int]:
    ends = predict_ends(worker, lambda *_: cost, now)
    numbers = [end.call.number for end in ends if fits(end, leave, now)]
    hopeless = is_hopeless([worker], lambda *_: cost, leave, now)
    assert hopeless == (bool(ends) and not numbers)
    return numbers


@given(
    cost=seconds,
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    spent=st.floats(0.0, 1e4),
    left=seconds,
)
def test_law_calls_that_end_in_time_and_their_predecessors_are_awaited(
    cost: float, sizes: list[int], spent: float, left: float
) -> None:
    worker, now = make_worker(*sizes, busy_since=-spent), 0.0
    waited = find_numbers(worker, cost, Leave(0.0, left), now)
    ends, at = [], max(0.0, cost * sizes[0] - spent)
    for size in [0, *sizes[1:]]:
        at += cost * size
        ends.append(at)
    is_overdue = spent > 2 * cost * sizes[0]
    assert waited == ([] if is_overdue else [n for n, end in enumerate(ends) if end <= left])


@given(spent=st.floats(0.0, 1e4), prompt=st.floats(0.0, 10.0), now=st.floats(0.0, 20.0))
def test_law_unmeasured_calls_get_a_moment(spent: float, prompt: float, now: float) -> None:
    worker = make_worker(1, busy_since=now - spent)
    assert bool(find_numbers(worker, None, Leave(prompt, 1e6), now)) == (now < prompt)


def test_no_call_is_awaited_after_the_deadline() -> None:
    worker = make_worker(1, 1)
    assert find_numbers(worker, 0.1, Leave(5.0, 5.0), 4.0) == [0, 1]
    assert find_numbers(worker, 0.1, Leave(5.0, 5.0), 5.0) == []


def test_the_next_part_of_a_call_is_estimated_from_previous_parts() -> None:
    worker = make_worker(1)
    (call,) = worker.calls.values()
    call.counts = StageCounts(calls=4, seconds=8.0)
    assert [end.at for end in predict_ends(worker, lambda *_: 100.0, 0.5)] == [2.0]


def test_unrequested_parts_are_not_awaited() -> None:
    worker = make_worker(1)
    (call,) = worker.calls.values()
    call.is_paused = True
    assert find_numbers(worker, 0.1, Leave(), 0.0) == []


@pytest.mark.parametrize(("cost", "late"), [(None, True), (6.0, True), (5.0, False)])
def test_a_worker_is_requested_once_to_leave_a_late_call(cost: float | None, late: bool) -> None:
    worker, leave = make_worker(1, 9), Leave(3.0, 5.0)
    assert is_late(worker, lambda *_: cost, leave, 0.0) == late
    worker.is_leaving = True
    assert not is_late(worker, lambda *_: cost, leave, 0.0)


def test_a_worker_that_leaves_its_call_is_awaited() -> None:
    worker, leave = make_worker(1), Leave(3.0, 5.0)
    assert is_hopeless([worker], lambda *_: None, leave, 4.0)
    worker.is_leaving = True
    assert not is_hopeless([worker], lambda *_: None, leave, 4.0)
    assert is_hopeless([worker], lambda *_: None, leave, 5.0)
