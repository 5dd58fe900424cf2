"""Passes run one at a time per pipeline, no request is lost, and pauses grow after failures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_operator.reconcile.scheduling.schedule import (
    FIRST_BACKOFF,
    LEAST_PAUSE,
    LONGEST_BACKOFF,
    Key,
    Schedule,
)

A, B = Key("team", "a"), Key("team", "b")


def test_the_longest_due_pipeline_goes_first() -> None:
    schedule = Schedule()
    schedule.enqueue(B, 1.0)
    schedule.enqueue(A, 2.0)
    schedule.enqueue(B, 3.0)

    assert schedule.depth == 2
    assert schedule.lag(5.0) == 4.0
    assert [schedule.take(5.0), schedule.take(5.0), schedule.take(5.0)] == [B, A, None]
    assert schedule.lag(9.0) == 0.0


def test_the_lag_can_be_read_while_pipelines_become_due() -> None:
    """A separate thread reads the metrics, like the metrics server."""
    schedule, is_over = Schedule(), Event()
    for number in range(1000):
        schedule.enqueue(Key("team", str(number)), 1.0)

    def enqueue() -> None:
        for number in count():
            if is_over.is_set():
                return
            schedule.enqueue(Key("other", str(number)), 2.0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    others = Thread(target=enqueue)
    others.start()
    try:
        assert {schedule.lag(5.0) for _ in range(100)} == {4.0}
    finally:
        is_over.set()
        others.join()
        sys.setswitchinterval(interval)


def test_a_poke_during_a_pass_causes_another_pass() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    assert schedule.take(0.0) == A
    schedule.enqueue(A, 1.0)
    schedule.enqueue(A, 1.0)
    assert schedule.take(1.0) is None
    assert schedule.longest_silence(3.0) == 3.0
    schedule.note_sign(A, 2.0)
    schedule.note_sign(B, 2.0)  # no pass runs for B, so the sign is ignored
    assert schedule.longest_silence(3.0) == 1.0

    schedule.finish(A, 3.0, wake_at=100.0)

    assert schedule.take(3.0) is None
    assert schedule.take(3.0 + LEAST_PAUSE) == A
    schedule.finish(A, 4.0, None)
    assert schedule.next_time is None


def test_a_pass_is_woken_at_its_time() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    schedule.take(0.0)
    schedule.finish(A, 0.0, wake_at=60.0)

    assert schedule.next_time == 60.0
    assert schedule.take(59.9) is None
    schedule.enqueue(A, 30.0)
    assert schedule.take(30.0) == A
    schedule.finish(A, 30.0, wake_at=0.0)
    assert schedule.next_time == 30.0 + LEAST_PAUSE


def test_a_burst_of_pokes_causes_two_passes() -> None:
    schedule, passes = Schedule(), 0
    for tick in range(100):
        now = 50.0 + tick / 1000
        schedule.enqueue(A, now)
        if schedule.take(now) is not None:
            passes += 1
            schedule.finish(A, now, wake_at=110.0)
    assert passes == 1
    assert schedule.next_time == 50.0 + LEAST_PAUSE


def test_an_urgent_pass_skips_the_pause_and_others() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 1.0)
    schedule.take(1.0)
    schedule.enqueue(A, 1.0, is_urgent=True)
    schedule.enqueue(B, 1.0)
    schedule.finish(A, 2.0, 60.0)
    assert [schedule.take(2.0), schedule.take(2.0)] == [A, B]
    schedule.finish(A, 3.0, 60.0)
    schedule.enqueue(A, 3.0)
    assert schedule.take(3.0) is None
    schedule.enqueue(A, 3.0, is_urgent=True)
    assert schedule.take(3.0) == A


def test_an_urgent_pass_overtakes_passes_that_are_due() -> None:
    schedule = Schedule()
    for name in "bcd":
        schedule.enqueue(Key("team", name), 1.0)
    schedule.enqueue(A, 2.0)
    schedule.enqueue(A, 3.0, is_urgent=True)
    assert [schedule.take(3.0), schedule.take(3.0)] == [A, B]
    assert schedule.depth == 2


def test_an_urgent_pass_waits_after_a_failure() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 1.0)
    schedule.take(1.0)
    schedule.enqueue(A, 1.0, is_urgent=True)
    schedule.fail(A, 2.0)
    schedule.enqueue(A, 2.0, is_urgent=True)
    assert schedule.take(2.0) is None
    assert schedule.take(2.0 + FIRST_BACKOFF) == A


def test_a_deleted_pipeline_leaves_nothing_behind() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    schedule.take(0.0)
    schedule.fail(A, 0.0)
    schedule.take(1.0)
    schedule.finish(A, 1.0, None)
    assert (schedule._due, schedule._not_before, schedule._failures) == ({}, {}, {})
    schedule.enqueue(A, 1.0)
    assert schedule.take(1.0) == A


def test_pauses_after_failures_grow_until_a_success() -> None:
    schedule, now, waits = Schedule(), 0.0, []
    schedule.enqueue(A, now)
    for _ in range(20):
        assert schedule.take(now) == A
        wait = schedule.fail(A, now)
        schedule.enqueue(A, now)
        assert schedule.take(now + wait - 0.01) is None
        waits.append(wait)
        now += wait
    schedule.take(now)
    schedule.finish(A, now, wake_at=now)
    schedule.take(now + 1)

    assert waits[:4] == [FIRST_BACKOFF, 2 * FIRST_BACKOFF, 4 * FIRST_BACKOFF, 8 * FIRST_BACKOFF]
    assert waits[-1] == LONGEST_BACKOFF
    assert schedule.fail(A, now + 1) == FIRST_BACKOFF


def test_a_retry_after_header_delays_passes() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    schedule.take(0.0)
    assert schedule.fail(A, 0.0, at_least=17.0) == 17.0
    assert schedule.next_time == 17.0


def test_a_failing_pipeline_delays_no_other() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    schedule.take(0.0)
    schedule.fail(A, 0.0, at_least=1000.0)
    schedule.enqueue(B, 1.0)
    assert schedule.take(1.0) == B


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["poke", "take", "finish", "fail"]),
        st.sampled_from([A, B]),
        st.floats(0, 100),
    ),
    max_size=60,
)


@given(STEPS)
def test_law_a_pipeline_has_one_pass_at_a_time_and_loses_no_poke(
    steps: Sequence[tuple[str, Key, float]],
) -> None:
    schedule, now = Schedule(), 0.0
    running: set[Key] = set()
    owed: set[Key] = set()
    for step, key, seconds in steps:
        now += seconds
        if step == "poke":
            schedule.enqueue(key, now)
            owed.add(key)
        elif step == "take":
            taken = schedule.take(now)
            assert taken not in running
            if taken is not None:
                running.add(taken)
                owed.discard(taken)
        elif key in running:
            running.remove(key)
            if step == "finish":
                schedule.finish(key, now, None)
            else:
                schedule.fail(key, now)
                owed.add(key)
    for key in running:
        schedule.finish(key, now, None)
    left = set()
    while (taken := schedule.take(now + 1000)) is not None:
        left.add(taken)
        now += 1
        schedule.finish(taken, now + 1000, None)
    assert left >= owed


@pytest.mark.parametrize("count", [1, 1000])
def test_old_entries_do_not_pile_up(count: int) -> None:
    schedule = Schedule()
    for turn in range(count):
        schedule.enqueue(A, float(turn))
        assert schedule.take(float(turn)) == A
        schedule.finish(A, float(turn), wake_at=turn + 60.0)
    assert schedule.depth == 1
    assert schedule.take(count + 100.0) == A
    assert schedule.next_time is None
    assert len(schedule._heap) == 0


def test_a_promised_time_takes_precedence_over_longer_waits() -> None:
    schedule = Schedule()
    schedule.enqueue(A, 0.0)
    schedule.take(0.0)
    schedule.finish(A, 0.0, wake_at=60.0, is_promised=True)
    schedule.enqueue(B, 10.0)
    assert schedule.next_time == 10.0
    assert [schedule.take(60.0), schedule.take(60.0)] == [A, B]
    schedule.finish(A, 60.0, wake_at=100.0, is_promised=True)
    schedule.finish(B, 60.0, wake_at=90.0)
    schedule.enqueue(A, 70.0)
    assert [schedule.take(70.0), schedule.take(70.0)] == [A, None]
    schedule.finish(A, 70.0, wake_at=100.0)
    assert [schedule.take(100.0), schedule.take(100.0)] == [B, A]
    assert (schedule._heap, schedule._promised, schedule._due) == ([], [], {})


@given(st.lists(st.booleans()), st.booleans())
def test_law_events_during_a_pass_cause_another_pass(
    events: Sequence[bool], is_promised: bool
) -> None:
    """The parameters are passes, each with or without an event during the pass."""
    schedule, now = Schedule(), 0.0
    for is_during in events:
        schedule.enqueue(A, now)
        while schedule.take(now) is None:
            now += 1.0
        if is_during:
            schedule.enqueue(A, now)
        schedule.finish(A, now, now + 1e6, is_promised=is_promised)
        assert (schedule.take(now + 1000.0) is not None) == is_during
        now += 1000.0
        if is_during:
            schedule.finish(A, now, now + 1e6)


def list_keys(namespace: str, number: int) -> list[Key]:
    return [Key(namespace, f"p{at}") for at in range(number)]


def test_namespaces_take_turns() -> None:
    schedule = Schedule()
    for key in [*list_keys("many", 500), *list_keys("few", 2)]:
        schedule.enqueue(key, 1.0)
    taken = [schedule.take(2.0) for _ in range(4)]
    assert [key.namespace for key in taken if key] == ["many", "few", "many", "few"]


def test_passes_of_one_namespace_leave_capacity_for_others() -> None:
    schedule = Schedule(most_running=2)
    for key in list_keys("slow", 5):
        schedule.enqueue(key, 0.0)
    slow = [schedule.take(1.0), schedule.take(1.0)]
    assert schedule.take(1.0) is None
    assert [schedule.next_time] == [None]  # with a time, the queue would retry immediately
    assert schedule.lag(9.0) == 9.0
    schedule.enqueue(A, 2.0)
    assert schedule.next_time == 2.0
    assert schedule.take(2.0) == A
    schedule.finish(slow[0] or A, 3.0, None)
    assert schedule.next_time == 0.0
    assert schedule.take(3.0) == Key("slow", "p2")


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9)), max_size=60),
    st.integers(1, 3),
)
def test_law_a_due_pipeline_waits_for_one_pass_per_other_namespace(
    due: list[tuple[str, int]], most: int
) -> None:
    schedule = Schedule(most_running=most)
    waiting = {Key(namespace, str(name)) for namespace, name in due}
    for key in sorted(waiting):
        schedule.enqueue(key, 0.0)
    order = []
    while (taken := schedule.take(1.0)) is not None:
        order.append(taken.namespace)
        schedule.finish(taken, 1.0, None)
    assert len(order) == len(waiting)
    for at, namespace in enumerate(order):
        left = order[at + 1 :]
        # Between two passes of a namespace, each other namespace with due pipelines has one pass.
        if namespace in left:
            between = left[: left.index(namespace)]
            assert set(between) == set(left) - {namespace}
            assert len(between) == len(set(between))
