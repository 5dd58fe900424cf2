"""The free workers and their number are looked up once for many calls."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.engine.call.slots import Slot
from strandline.engine.core.call_size import BUSY, LOAD_SECONDS, MOST_STRETCH, DriverLoad, size_call
from strandline.engine.core.pools import CALLS_PER_WORKER
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.stage import Stage


class Pools(PooledCalls):
    """Pools whose workers have only names."""

    def __init__(self) -> None:
        super().__init__([Chain(0, (StagePlan("a", "a", Stage()),))], None, lambda: 0.0, print)

    def has_free(self, most: int) -> bool:
        return self.has_room(0, most)

    def count(self) -> tuple[int, int, int]:
        return self._count(0)

    def _send(self, call: Call) -> object:
        return object()

    def _ask_on(self, call: Call, left: bytes | None) -> object:
        return object()

    def _ask_back(self, call: Call) -> None:
        pass

    def _ask_split(self, call: Call) -> None:
        pass

    def _ask_leave(self, worker: Worker) -> None:
        pass

    def _kill(self, worker: Worker) -> None:
        pass


class LookedUp(RuleBasedStateMachine):
    """After any events of workers, the lookup equals a check of each worker."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = Pools()
        self.pools.level([StageCounts()])

    @property
    def workers(self) -> list[Worker]:
        return self.pools[0].workers

    @rule()
    def start(self) -> None:
        self.pools.add(Worker(0, object(), node="n"))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.pools.settle(data.draw(st.sampled_from(self.workers)))

    @rule(is_suspect=st.booleans(), most=st.integers(1, CALLS_PER_WORKER))
    def submit(self, is_suspect: bool, most: int) -> None:
        if is_suspect:
            most = 1  # like drivers
        if self.pools.has_free(most):
            slot = Slot(b"s" * 16, "k", b"t" * 16, None, None, 0, is_suspect=is_suspect)
            self.pools.submit(0, [slot], most)

    @precondition(lambda self: self.pools.calls)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.pools.drop_call(data.draw(st.sampled_from(list(self.pools.calls))))

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), is_lost=st.booleans())
    def leave(self, data: st.DataObject, is_lost: bool) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        if is_lost:
            self.pools.remove(worker)
        else:
            self.pools.drain(worker)

    @invariant()
    def is_true(self) -> None:
        open_ones = [each for each in self.workers if each.is_open and not each.has_suspects]
        for most in range(1, CALLS_PER_WORKER + 1):
            free = any(len(worker.calls) < most for worker in open_ones)
            assert self.pools.has_free(most) == free
        pool = self.pools[0]
        assert self.pools.count() == (pool.starting, pool.staying, pool.takers)
        assert all(len(each.calls) == 1 for each in self.workers if each.has_suspects)


TestLookedUp = LookedUp.TestCase


@pytest.mark.parametrize("busy", [BUSY * 1.1, 1.0])
def test_a_busy_driver_sends_fewer_and_larger_calls(busy: float) -> None:
    load = DriverLoad()
    stretches = []
    for look in range(40):
        load.look(look * LOAD_SECONDS, look * LOAD_SECONDS * busy)
        stretches.append(load.stretch)

    assert stretches[0] == 1.0
    assert stretches == sorted(stretches)
    assert stretches[-1] == MOST_STRETCH
    assert load.bound_seconds(0.02) == 1.0
    assert load.bound_seconds(5.0) == 5.0  # calls never become shorter


def test_an_idle_driver_sends_the_shortest_calls() -> None:
    load = DriverLoad()
    for look in range(10):
        load.look(look * LOAD_SECONDS, look * LOAD_SECONDS)
    driven = 9 * LOAD_SECONDS
    for look in range(10, 30):
        driven += LOAD_SECONDS * BUSY / 4
        load.look(look * LOAD_SECONDS, driven)

    assert load.stretch == 1.0
    assert load.bound_seconds(0.02) == 0.02


def test_a_short_moment_does_not_measure_a_driver() -> None:
    load = DriverLoad()
    for look in range(9):
        load.look(look * LOAD_SECONDS / 10, look * LOAD_SECONDS / 10)

    assert load.stretch == 1.0


def test_a_stretched_call_has_the_shares_of_several_workers() -> None:
    assert size_call(100, 1, 100, 50) == 2
    assert size_call(100, 1, 100, 50, stretch=8.0) == 16
    assert size_call(10, 1, 100, 50, stretch=8.0) == 10  # limited by the maximum size of a call
