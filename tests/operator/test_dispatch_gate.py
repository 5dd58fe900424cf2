"""The brake on a storm of retries: so many attempts a minute across the cluster, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline_operator.model.view import Turn
from strandline_operator.reconcile.schedule import DispatchGate


def test_a_minute_may_be_used_up_at_once_and_then_fills_evenly() -> None:
    gate = DispatchGate(per_minute=3)
    for _ in range(3):
        assert gate.look(0.0).is_open
        gate.count(0.0)

    assert not gate.look(19.9).is_open
    assert gate.look(20.1).is_open
    gate.count(20.1)
    assert not gate.look(20.2).is_open


def test_zero_lets_nothing_through_however_long_one_waits() -> None:
    gate = DispatchGate(per_minute=0)
    assert not gate.look(0.0).is_open
    assert not gate.look(1e9).is_open


def test_less_than_one_a_minute_lets_one_through_now_and_then() -> None:
    gate = DispatchGate(per_minute=0.5)
    assert gate.look(0.0).is_open
    gate.count(0.0)
    assert not gate.look(119.0).is_open
    assert gate.look(121.0).is_open


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    gate = DispatchGate(per_minute=1)
    gate.count(1000.0)
    assert not gate.look(0.0).is_open
    assert not gate.look(1000.0).is_open


@given(st.integers(1, 20), st.lists(st.floats(0, 10), max_size=200), st.floats(0, 5000))
def test_law_no_minute_has_more_than_twice_its_share(
    per_minute: int, waits: list[float], begin: float
) -> None:
    gate, now, passed = DispatchGate(per_minute), begin, list[float]()
    for wait in waits:
        now += wait
        if gate.look(now).is_open:
            gate.count(now)
            passed.append(now)
    # A full bucket and what flows in meanwhile.
    for start in passed:
        assert sum(start <= time <= start + 60 for time in passed) <= 2 * per_minute + 1


@given(st.integers(1, 600), st.integers(1, 30), st.floats(0, 3000))
def test_law_the_gate_is_open_when_it_said_and_not_before(
    per_minute: int, used: int, now: float
) -> None:
    gate = DispatchGate(per_minute)
    for _ in range(per_minute + used):
        gate.count(now)
    opens_at = gate.look(now).opens_at
    assert opens_at is not None
    assert not gate.look(now + (opens_at - now) * 0.99).is_open
    assert gate.look(opens_at).is_open


def test_those_who_wait_are_told_how_long_all_of_them_take() -> None:
    gate = DispatchGate(per_minute=120)
    for _ in range(120):
        gate.count(0.0)
    assert gate.look(0.0).spread == 0.0
    for who in range(1000):
        gate.hold(who, is_held=True)
        gate.hold(who, is_held=True)
    assert gate.look(0.0).spread == 500.0
    for who in range(1, 1001):
        gate.hold(who, is_held=False)
    assert gate.look(0.0).spread == 0.5


def test_a_gate_that_is_shut_for_good_names_no_time() -> None:
    assert DispatchGate(per_minute=0).look(5.0) == Turn(is_open=False)
