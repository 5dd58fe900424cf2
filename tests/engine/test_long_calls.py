"""Long calls: which stage of a chain they are in, which calls move, and which calls are split."""

from __future__ import annotations

from strandline.engine.call.slots import Slot
from strandline.engine.core.worker_pool import SLOW_SECONDS, Pool
from strandline.engine.core.workers import LONG_SECONDS, Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.worker.worker_page import CallPosition
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Stage

NOW = 100.0


def make_pool(*busy: tuple[int, float]) -> Pool:
    """Return a pool for a chain of three stages, with a call count and busy seconds per worker."""
    stages = tuple(StagePlan(name, name, Stage()) for name in ("read", "work", "write"))
    pool = Pool(Chain(0, stages))
    for count, seconds in busy:
        worker = Worker(
            0, "actor", is_ready=True, busy_since=NOW - seconds, call_since=NOW - seconds
        )
        for number in range(1, count + 1):
            slot = Slot(b"s" * 16, "key", b"t" * 16, None, None, number)
            worker.calls[number] = Call(0, worker, [slot], None, number)
        pool.workers.append(worker)
    return pool


def times_of(pool: Pool) -> list[tuple[float, float]]:
    return [(state.under_way, state.oldest) for state in pool.look_apart(NOW)]


def test_a_call_is_shown_in_its_current_stage() -> None:
    pool = make_pool((1, 30.0), (1, 10.0), (0, 0.0))
    assert times_of(pool) == [(40.0, 30.0), (0.0, 0.0), (0.0, 0.0)]

    pool.workers[0].located = CallPosition(1, 2, "in/7.json")
    assert times_of(pool) == [(10.0, 10.0), (0.0, 0.0), (30.0, 30.0)]
    assert (pool.look(NOW).under_way, pool.look(NOW).oldest) == (40.0, 30.0)

    pool.workers[0].located = CallPosition(7, 2)  # the position of a previous call
    assert times_of(pool) == [(40.0, 30.0), (0.0, 0.0), (0.0, 0.0)]


def test_a_call_that_takes_far_longer_than_usual_is_reported_once() -> None:
    pool = make_pool((1, SLOW_SECONDS + 10), (1, SLOW_SECONDS - 1), (0, 0.0))
    assert list(pool.list_slow(NOW)) == []  # no call has shown what is usual
    pool.costs[0].seconds = SLOW_SECONDS
    assert list(pool.list_slow(NOW)) == []
    pool.costs[0].seconds = 2.0
    pool.workers[0].located = CallPosition(1, 1, "in/7.json")
    ((worker, words),) = pool.list_slow(NOW)
    assert worker is pool.workers[0]
    expected = "'work' has worked for 40 s on in/7.json, more than 10 times as long as usual"
    assert words == expected
    assert list(pool.list_slow(NOW)) == []
    (call,) = pool.workers[0].calls.values()
    call.number += 1
    assert len(list(pool.list_slow(NOW))) == 1


def test_worker_counts_are_reported_once_per_chain() -> None:
    pool = make_pool((1, 30.0), (0, 0.0))
    pool.started, pool.lost = 5, 3
    states = pool.look_apart(NOW)
    assert [(each.started, each.lost, each.workers) for each in states] == [
        (5, 3, 2),
        (0, 0, 2),
        (0, 0, 2),
    ]


def test_a_long_call_names_its_source() -> None:
    pool = make_pool((1, 30.0), (1, LONG_SECONDS - 1))
    pool.workers[0].current.batch.append(  # type: ignore[union-attr]
        Slot(b"o" * 16, "other", b"u" * 16, None, None, 9)
    )
    assert [state.over for state in pool.look_apart(NOW)] == ["key and 1 more", "", ""]

    pool.workers[0].located = CallPosition(1, 2, "in/7.json")
    assert [state.over for state in pool.look_apart(NOW)] == ["", "", "in/7.json"]


def list_stuck(pool: Pool) -> list[tuple[int, int]]:
    """Return index and call number of workers that should return a waiting call."""
    return [(pool.workers.index(call.worker), call.number) for call in pool.list_stuck(NOW)]


def test_waiting_calls_behind_a_long_call_move_to_idle_workers() -> None:
    assert list_stuck(make_pool((2, 30.0), (0, 0.0))) == [(0, 2)]
    assert list_stuck(make_pool((2, 30.0), (1, 1.0))) == []  # no idle worker
    assert list_stuck(make_pool((2, 1.0), (0, 0.0))) == []  # the call will start soon
    assert list_stuck(make_pool((1, 30.0), (0, 0.0))) == []  # a running call stays
    assert list_stuck(make_pool((3, 30.0), (2, 40.0), (0, 0.0))) == [(0, 2)]  # one call only


def test_calls_that_cannot_be_taken_back_are_not_requested() -> None:
    pool = make_pool((2, 30.0), (0, 0.0))
    pool.workers[1].is_draining = True
    assert list_stuck(pool) == []
    pool.workers[1].is_draining = False
    pool.workers[0].calls[2].is_paused = True  # the call has started
    assert list_stuck(pool) == []
    pool.workers[0].calls[2].is_paused = False
    pool.workers[0].calls[2].is_asked_back = True
    assert list_stuck(pool) == []


def list_late(pool: Pool) -> list[int]:
    """Return the indexes of workers whose running call should be split."""
    return [pool.workers.index(call.worker) for call in pool.list_late(NOW)]


def add_task(pool: Pool, worker: int) -> Call:
    call = pool.workers[worker].current
    assert call is not None
    call.batch.append(Slot(b"o" * 16, "other", b"u" * 16, None, None, 9))
    return call


def test_a_long_call_of_several_tasks_is_split_again_after_a_while() -> None:
    pool = make_pool((1, 30.0), (1, 30.0), (1, LONG_SECONDS - 1))
    call, _ = add_task(pool, 0), add_task(pool, 2)
    assert list_late(pool) == [0]  # the others have one task or started recently
    call.split_at = NOW - 1
    assert list_late(pool) == []
    call.split_at = NOW - LONG_SECONDS
    assert list_late(pool) == [0]
    call.is_paused = True
    assert list_late(pool) == []  # no worker is processing the call


def test_a_call_in_parts_takes_as_long_as_all_of_them() -> None:
    pool = make_pool((2, 30.0), (0, 0.0))
    add_task(pool, 0)
    pool.workers[0].busy_since = NOW - 1  # since the start of the current part
    assert (list_late(pool), list_stuck(pool)) == ([0], [(0, 2)])
