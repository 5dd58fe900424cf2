"""Calls that exceed their timeout: how they are detected, and the message."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from strandline.engine.core.worker_pool import Pool
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.worker.limits import CallWatch, explain_overdue
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Stage
from test_flow import make_slots

PATIENCE = 60.0


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_hanging_call_is_reported_while_it_hangs() -> None:
    said: list[str] = []
    is_told = threading.Event()

    def take(words: str) -> None:
        said.append(words)
        is_told.set()

    watch = CallWatch(lambda: 100.0, take)

    with watch.watching(0.0, "too long"):
        assert is_told.wait(PATIENCE)

    assert said == ["too long"]


def test_calls_that_end_in_time_are_never_reported() -> None:
    clock, said, last = Clock(), list[str](), threading.Event()

    def take(words: str) -> None:
        said.append(words)
        last.set()

    watch = CallWatch(clock, take)
    for number in range(20):
        with watch.watching(10.0, f"call {number}"):
            clock.seconds += 9.0
    with watch.watching(None, "without a limit"):
        clock.seconds += 1e9
    with watch.watching(0.0, "the last"):
        assert last.wait(PATIENCE)

    assert said == ["the last"]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [(1, "a task took longer than the 2.5 s"), (4, "a call of 4 tasks took longer than the 2.5 s")],
)
def test_the_message_names_the_overdue_work(tasks: int, said: str) -> None:
    assert explain_overdue(tasks, 2.5).startswith(said)


def make_pool(timeout: float | None = 10.0, group: int | None = None) -> Pool:
    """Return a pool whose worker has processed a call of two tasks since second 100."""
    plan = StagePlan("s", "s", Stage(), batch_size=2, timeout=timeout, group=group)
    pool = Pool(Chain(0, (plan,)))
    worker = Worker(0, "actor", is_ready=True, busy_since=100.0)
    worker.calls["first"] = Call(0, worker, make_slots(2), "data", 1)
    worker.calls["second"] = Call(0, worker, make_slots(1), "data", 2)
    pool.workers = [worker, Worker(0, "idle", is_ready=True)]
    return pool


Make = Callable[[], Pool]


@pytest.mark.parametrize(
    ("make", "now", "overdue"),
    [
        (make_pool, 119.0, 0),  # ten seconds for each of two tasks
        (make_pool, 121.0, 1),
        (lambda: make_pool(group=2), 111.0, 1),  # both tasks form a group
        (lambda: make_pool(timeout=None), 1e9, 0),
    ],
)
def test_law_the_time_limit_of_a_call_depends_on_its_tasks(
    make: Make, now: float, overdue: int
) -> None:
    assert len(list(make().list_overdue(now))) == overdue


def test_the_oldest_running_call_is_shown() -> None:
    pool = make_pool()
    assert pool.look(107.0).oldest == 7.0
    pool.workers[0].calls.clear()
    assert pool.look(107.0).oldest == 0.0
