"""A worker's one thread: the order of its work, and whose answer is whose."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.worker_loop import WorkerLoop

PATIENCE = 120.0


class Payload:
    """Something that can be seen to be gone."""


def call(pool: ThreadPoolExecutor, work: Callable[[], None]) -> Future[None]:
    """Begin on a thread of its own; the next line finds it begun, not done."""
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        work()

    future = pool.submit(begin)
    assert begun.wait(PATIENCE)
    return future


@given(order=st.permutations(range(6)), skipped=st.sets(st.integers(0, 5)))
def test_law_work_is_done_by_number_whatever_comes_first(
    order: list[int], skipped: set[int]
) -> None:
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


def test_law_a_later_call_never_overtakes_one_that_is_still_on_its_way() -> None:
    loop, done = WorkerLoop(), []
    with ThreadPoolExecutor(2) as pool:
        second = call(pool, lambda: loop.run(1, lambda: done.append("small")))
        assert not second.done()
        loop.run(0, lambda: done.append("large"))
        second.result(PATIENCE)

    assert done == ["large", "small"]


def test_law_all_work_is_done_on_one_thread() -> None:
    loop = WorkerLoop()

    threads = {loop.run(number, threading.get_ident) for number in range(5)}

    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_an_answer_is_taken_while_the_next_work_is_done() -> None:
    loop, is_taken = WorkerLoop(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(loop.run, 1, lambda: is_taken.wait(PATIENCE))
        loop.run(0, lambda: None)
        is_taken.set()  # reached only while the second one is at work

        assert second.result(PATIENCE)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_reaches_its_own_call_and_no_other(error: BaseException) -> None:
    loop = WorkerLoop()

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        loop.run(0, fail)

    assert raised.value is error
    assert loop.run(1, lambda: "next") == "next"


def test_what_was_worked_on_is_not_kept() -> None:
    loop = WorkerLoop()
    seen: list[weakref.ref[Payload]] = []

    def work() -> None:
        payload = Payload()
        seen.append(weakref.ref(payload))
        loop.run(0, lambda: repr(payload))

    work()
    gc.collect()

    assert seen[0]() is None
