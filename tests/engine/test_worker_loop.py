"""A worker's single work thread: the order of work, and which answer belongs to which call."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.worker.worker_loop import PARTS_AHEAD, GivenBack, WorkerLoop

PATIENCE = 120.0


class Payload:
    """An object whose deletion can be observed."""


def call(pool: ThreadPoolExecutor, work: Callable[[], None]) -> Future[None]:
    """Run work in another thread, and return after its start but before its end."""
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        work()

    future = pool.submit(begin)
    assert begun.wait(PATIENCE)
    return future


@given(order=st.permutations(range(6)), skipped=st.sets(st.integers(0, 5)))
def test_law_work_is_done_in_order_of_numbers(order: list[int], skipped: set[int]) -> None:
    loop, done = WorkerLoop(), []

    def work(number: int) -> int:
        done.append(number)
        return number * number

    with ThreadPoolExecutor(6) as pool:
        answers: dict[int, Future[int]] = {}
        for number in order:
            if number in skipped:
                loop.skip(number)
            else:
                answers[number] = pool.submit(loop.run, number, lambda own=number: work(own))
        for number, answer in answers.items():
            assert answer.result(PATIENCE) == number * number

    assert done == [number for number in range(6) if number not in skipped]


def test_law_a_later_call_never_overtakes_an_earlier_one_in_transit() -> None:
    loop, done = WorkerLoop(), []
    with ThreadPoolExecutor(2) as pool:
        second = call(pool, lambda: loop.run(1, lambda: done.append("small")))
        assert not second.done()
        loop.run(0, lambda: done.append("large"))
        second.result(PATIENCE)

    assert done == ["large", "small"]


def test_law_all_work_runs_on_one_thread() -> None:
    loop = WorkerLoop()

    threads = {loop.run(number, threading.get_ident) for number in range(5)}

    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_an_answer_is_taken_during_the_next_work() -> None:
    loop, is_taken = WorkerLoop(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(loop.run, 1, lambda: is_taken.wait(PATIENCE))
        loop.run(0, lambda: None)
        is_taken.set()  # reached only if the second call runs already

        assert second.result(PATIENCE)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_reaches_only_its_own_call(error: BaseException) -> None:
    loop = WorkerLoop()

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        loop.run(0, fail)

    assert raised.value is error
    assert loop.run(1, lambda: "next") == "next"


def test_processed_data_is_not_kept() -> None:
    loop = WorkerLoop()
    seen: list[weakref.ref[Payload]] = []

    def work() -> None:
        payload = Payload()
        seen.append(weakref.ref(payload))
        loop.run(0, lambda: repr(payload))

    work()
    gc.collect()

    assert seen[0]() is None


def test_law_a_call_ends_before_the_next_begins() -> None:
    loop = WorkerLoop()
    done: list[int | str] = []

    def work() -> Iterator[int]:
        for number in range(5):
            done.append(number)
            yield number

    parts = loop.begin(0, work)
    with ThreadPoolExecutor(1) as pool:
        second = call(pool, lambda: loop.run(1, lambda: done.append("second")))
        assert [parts.take() for _ in range(4)] == [0, 1, 2, 3]
        assert not second.done()
        assert parts.take() == 4
        second.result(PATIENCE)

    assert done == [0, 1, 2, 3, 4, "second"]


def test_law_parts_made_ahead_are_limited() -> None:
    loop, made = WorkerLoop(), []
    changed = threading.Condition()

    def work() -> Iterator[int]:
        for number in range(9):
            with changed:
                made.append(number)
                changed.notify()
            yield number

    parts = loop.begin(0, work)
    for taken in range(9 - PARTS_AHEAD):
        with changed:
            assert changed.wait_for(lambda: len(made) > taken + PARTS_AHEAD, PATIENCE)  # noqa: B023
            assert len(made) == taken + PARTS_AHEAD + 1
        parts.take()


def test_an_error_between_two_parts_reaches_the_caller_of_the_next() -> None:
    def work() -> Iterator[int]:
        yield 1
        raise ValueError

    parts = WorkerLoop().begin(0, work)

    assert parts.take() == 1
    with pytest.raises(ValueError, match=r"^$"):
        parts.take()


@given(
    order=st.permutations(range(1, 6)),
    asked=st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=6),
)
def test_law_work_is_done_or_given_back_and_never_both(
    order: list[int], asked: list[tuple[int, bool]]
) -> None:
    loop, done, is_free = WorkerLoop(), [], threading.Event()
    early = {number for number, is_early in asked if is_early}
    late = {number for number, is_early in asked if not is_early}

    def work(number: int) -> int:
        done.append(number)
        return number

    with ThreadPoolExecutor(7) as pool:
        first = pool.submit(loop.run, 0, lambda: is_free.wait(PATIENCE))  # the first call hangs
        for number in early:
            loop.give_back(number)
        answers = {
            number: pool.submit(loop.run, number, lambda own=number: work(own)) for number in order
        }
        for number in early:  # immediately, although the first call hangs
            with pytest.raises(GivenBack):
                answers[number].result(PATIENCE)
        for number in late:
            loop.give_back(number)
        for number in late - early:
            with pytest.raises(GivenBack):
                answers[number].result(PATIENCE)
        assert done == []
        is_free.set()
        first.result(PATIENCE)
        for number in answers.keys() - early - late:
            assert answers[number].result(PATIENCE) == number

    assert done == sorted(answers.keys() - early - late)


def test_started_or_finished_work_is_not_given_back() -> None:
    loop, is_begun, is_free = WorkerLoop(), threading.Event(), threading.Event()

    def work() -> int:
        is_begun.set()
        is_free.wait(PATIENCE)
        return 7

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(loop.run, 0, work)
        assert is_begun.wait(PATIENCE)
        loop.give_back(0)
        is_free.set()
        assert answer.result(PATIENCE) == 7
    loop.give_back(0)
    assert loop.run(1, lambda: 8) == 8
