"""The brake on a storm of retries: so many attempts a minute across the cluster, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline_operator.reconcile.dispatch_gate import DispatchGate


def test_a_minute_may_be_used_up_at_once_and_then_fills_evenly() -> None:
    gate = DispatchGate(per_minute=3)
    for _ in range(3):
        assert gate.is_open(0.0)
        gate.count(0.0)

    assert not gate.is_open(19.9)
    assert gate.is_open(20.1)
    gate.count(20.1)
    assert not gate.is_open(20.2)


def test_zero_lets_nothing_through_however_long_one_waits() -> None:
    gate = DispatchGate(per_minute=0)
    assert not gate.is_open(0.0)
    assert not gate.is_open(1e9)


def test_less_than_one_a_minute_lets_one_through_now_and_then() -> None:
    gate = DispatchGate(per_minute=0.5)
    assert gate.is_open(0.0)
    gate.count(0.0)
    assert not gate.is_open(119.0)
    assert gate.is_open(121.0)


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    gate = DispatchGate(per_minute=1)
    gate.count(1000.0)
    assert not gate.is_open(0.0)
    assert not gate.is_open(1000.0)


@given(st.integers(1, 20), st.lists(st.floats(0, 10), max_size=200), st.floats(0, 5000))
def test_law_no_minute_has_more_than_twice_its_share(
    per_minute: int, waits: list[float], begin: float
) -> None:
    gate, now, passed = DispatchGate(per_minute), begin, list[float]()
    for wait in waits:
        now += wait
        if gate.is_open(now):
            gate.count(now)
            passed.append(now)
    # A full bucket and what flows in meanwhile.
    for start in passed:
        assert sum(start <= time <= start + 60 for time in passed) <= 2 * per_minute + 1
