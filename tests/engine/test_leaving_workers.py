"""A worker on a departing node finishes its current task if the task fits in the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline.engine.core.workers import Call, Worker
from strandline.engine.ray import pool as ray_pool
from strandline.plan.receipt import StageCounts
from test_flow import make_flow, make_slots
from test_ray_driver_parts import make_driver


class Leaving:
    """A worker and its driver. Each of its calls has a task of ten seconds."""

    def __init__(self, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flow = make_flow(1)
        self.flow.enter(make_slots(calls))
        self.driver: Any = make_driver(self.flow)
        self.skipped: list[int] = []
        self.killed: list[object] = []
        actor = SimpleNamespace(skip=SimpleNamespace(remote=self.skipped.append))
        monkeypatch.setattr(ray_pool, "ray", SimpleNamespace(kill=self.killed.append))
        self.worker = Worker(0, actor, node="a", is_placed=True, is_ready=True)
        pools = self.driver._pools
        monkeypatch.setattr(pools, "find_answered", lambda _: [])
        pools[0].workers.append(self.worker)
        pools[0].costs[0].seconds = 10.0
        for number in range(calls):
            call = Call(0, self.worker, self.flow.next_batch(0), "data", number, size_in=1)
            pools.calls[number] = self.worker.calls[number] = call

    def leave(self, seconds: float, now: float = 0.0) -> int:
        pending: int = self.driver._leave_worker(self.worker, seconds, now)
        return pending


@pytest.mark.parametrize(
    ("seconds", "pending", "skipped"), [(25.0, 2, []), (15.0, 1, [1]), (5.0, 0, [1])]
)
def test_waiting_calls_that_do_not_fit_are_taken_back(
    seconds: float, pending: int, skipped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = Leaving(2, monkeypatch)
    assert leaving.leave(seconds) == pending
    assert leaving.skipped == skipped
    assert leaving.worker.is_draining
    assert [slot.key for slot in leaving.flow.queues[0].waiting] == ["k1"] * len(skipped)
    assert leaving.flow.queues[0].running == 2 - len(skipped)
    assert not leaving.killed


def test_taking_calls_back_keeps_the_clock_of_the_running_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock predicts the end of the current task, and restarts for the next task."""
    leaving = Leaving(2, monkeypatch)
    leaving.worker.busy_since = -7.0
    leaving.leave(12.0)  # the first call ends in 3 s, the second in 13 s
    assert leaving.skipped == [1]
    assert leaving.worker.busy_since == -7.0

    leaving.driver._pools.drop_call(0)
    assert leaving.worker.busy_since == 0.0


def test_a_worker_without_calls_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = Leaving(0, monkeypatch)
    assert leaving.leave(30.0) == 0
    assert leaving.killed == [leaving.worker.actor]


def test_the_running_call_is_requeued_when_the_node_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = Leaving(1, monkeypatch)
    assert leaving.leave(5.0, now=5.0) == 0
    (slot,) = leaving.flow.queues[0].waiting
    assert (slot.key, slot.deaths, slot.is_suspect) == ("k0", 0, False)
    assert leaving.driver._losses.anything_died


def test_more_of_an_answer_is_requested_only_if_it_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaving = Leaving(1, monkeypatch)
    pools = leaving.driver._pools
    call = pools.calls.pop(0)
    call.is_paused, call.counts = True, StageCounts(calls=2, seconds=6.0)
    pools.paused[0] = call
    assert leaving.leave(4.0) == 1
    assert leaving.leave(2.0) == 0
    assert len(leaving.flow.queues[0].waiting) == 1
