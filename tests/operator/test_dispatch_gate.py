"""The rate limit against retry storms: a maximum number of attempts per minute per cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline_operator.model.view import Turn
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.schedule import Key

A, B, C = (Key(f"team-{name}", "corpus") for name in "abc")


def test_a_minute_may_be_used_up_at_once_and_then_fills_evenly() -> None:
    gate = DispatchGate(per_minute=3)
    for _ in range(3):
        assert gate.look(0.0, A).is_open
        gate.count(0.0, A)

    assert not gate.look(19.9, A).is_open
    assert gate.look(20.1, A).is_open
    gate.count(20.1, A)
    assert not gate.look(20.2, A).is_open


def test_a_rate_of_zero_never_opens_the_gate() -> None:
    gate = DispatchGate(per_minute=0)
    assert not gate.look(0.0, A).is_open
    assert not gate.look(1e9, A).is_open


def test_a_rate_below_one_per_minute_opens_the_gate_at_times() -> None:
    gate = DispatchGate(per_minute=0.5)
    assert gate.look(0.0, A).is_open
    gate.count(0.0, A)
    assert not gate.look(119.0, A).is_open
    assert gate.look(121.0, A).is_open


def test_a_clock_set_back_adds_no_budget() -> None:
    gate = DispatchGate(per_minute=1)
    gate.count(1000.0, A)
    assert not gate.look(0.0, A).is_open
    assert not gate.look(59.0, A).is_open


@given(st.integers(1, 20), st.lists(st.floats(0, 10), max_size=200), st.floats(0, 5000))
def test_law_no_minute_has_more_than_twice_its_share(
    per_minute: int, waits: list[float], begin: float
) -> None:
    gate, now, passed = DispatchGate(per_minute), begin, list[float]()
    for wait in waits:
        now += wait
        if gate.look(now, A).is_open:
            gate.count(now, A)
            passed.append(now)
    # A minute allows the tokens of a full bucket plus a minute's refill.
    for start in passed:
        assert sum(start <= time <= start + 60 for time in passed) <= 2 * per_minute + 1


@given(st.integers(1, 600), st.integers(1, 30), st.floats(0, 3000))
def test_law_the_gate_opens_at_the_announced_time_and_not_before(
    per_minute: int, used: int, now: float
) -> None:
    gate = DispatchGate(per_minute)
    for _ in range(per_minute + used):
        gate.count(now, A)
    opens_at = gate.look(now, A).opens_at
    assert opens_at is not None
    assert not gate.look(now + (opens_at - now) * 0.99, A).is_open
    assert gate.look(opens_at, A).is_open


def test_a_wait_is_spread_over_all_waiting_pipelines() -> None:
    gate = DispatchGate(per_minute=120)
    for _ in range(120):
        gate.count(0.0, A)
    assert gate.look(0.0, A).spread == 0.0
    for who in range(1000):
        gate.hold(Key("team-a", str(who)), is_held=True)
        gate.hold(Key("team-a", str(who)), is_held=True)
    assert gate.look(0.0, A).spread == 500.0
    for who in range(1, 1001):
        gate.hold(Key("team-a", str(who)), is_held=False)
    assert gate.look(0.0, A).spread == 0.5


def test_a_permanently_closed_gate_names_no_time() -> None:
    assert DispatchGate(per_minute=0).look(5.0, A) == Turn(is_open=False)


def use_up(gate: DispatchGate, key: Key, now: float) -> int:
    """Make attempts until the gate closes for this namespace. Other namespaces have pipelines."""
    made = 0
    while gate.look(now, key, is_alone=False).is_open:
        gate.count(now, key)
        made += 1
    return made


def test_one_namespace_can_not_exhaust_the_shared_budget() -> None:
    gate = DispatchGate(per_minute=120)
    assert use_up(gate, A, 0.0) == 60
    assert use_up(gate, B, 0.0) == 40
    assert use_up(gate, C, 0.0) == 20  # the rest of the burst of 30


def test_a_single_namespace_gets_the_whole_budget() -> None:
    gate = DispatchGate(per_minute=3)
    for _ in range(3):
        assert gate.look(0.0, A).is_open
        gate.count(0.0, A)
    assert not gate.look(0.0, A).is_open


def test_pipelines_of_other_namespaces_do_not_extend_a_wait() -> None:
    gate = DispatchGate(per_minute=120)
    use_up(gate, A, 0.0)
    for number in range(1000):
        gate.hold(Key("team-a", str(number)), is_held=True)
    use_up(gate, B, 0.0)
    gate.hold(B, is_held=True)
    turn = gate.look(0.0, B, is_alone=False)
    assert not turn.is_open
    assert turn.spread <= 2.0


@given(
    st.integers(1, 300), st.lists(st.tuples(st.floats(0, 5), st.sampled_from([A, B])), max_size=300)
)
def test_law_an_idle_namespace_may_make_an_attempt(
    per_minute: int, asks: list[tuple[float, Key]]
) -> None:
    gate, now = DispatchGate(per_minute), 0.0
    for wait, key in asks:
        now += wait
        if gate.look(now, key, is_alone=False).is_open:
            gate.count(now, key)
        gate.hold(key, is_held=True)
    turn = gate.look(now, C, is_alone=False)
    pace = 60.0 / per_minute
    assert turn.is_open or (turn.opens_at or 0.0) - now <= pace
