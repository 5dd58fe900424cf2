"""A call that takes long: in which stage of its chain it is shown."""

from __future__ import annotations

from strandline.engine.call.slots import Slot
from strandline.engine.core.chains import Chain
from strandline.engine.core.worker_pool import Call, Pool, Worker
from strandline.plan.pipeline import StagePlan
from strandline.plan.stage import Stage

NOW = 100.0


def make_pool(*busy: tuple[int, float]) -> Pool:
    """A pool of a chain of three, with workers that have so many calls, since so many seconds."""
    stages = tuple(StagePlan(name, name, Stage()) for name in ("read", "work", "write"))
    pool = Pool(Chain(0, stages))
    for count, seconds in busy:
        worker = Worker(0, "actor", is_ready=True, busy_since=NOW - seconds)
        for number in range(1, count + 1):
            slot = Slot(b"s" * 16, "key", b"t" * 16, None, None, number)
            worker.calls[number] = Call(0, worker, [slot], None, number)
        pool.workers.append(worker)
    return pool


def times_of(pool: Pool) -> list[tuple[float, float]]:
    return [(state.under_way, state.oldest) for state in pool.look_apart(NOW)]


def test_a_call_is_shown_in_the_stage_that_it_is_in() -> None:
    pool = make_pool((1, 30.0), (1, 10.0), (0, 0.0))
    assert times_of(pool) == [(40.0, 30.0), (0.0, 0.0), (0.0, 0.0)]

    pool.workers[0].located = (1, 2)
    assert times_of(pool) == [(10.0, 10.0), (0.0, 0.0), (30.0, 30.0)]
    assert (pool.look(NOW).under_way, pool.look(NOW).oldest) == (40.0, 30.0)

    pool.workers[0].located = (7, 2)  # a call that is over
    assert times_of(pool) == [(40.0, 30.0), (0.0, 0.0), (0.0, 0.0)]


def test_what_is_of_workers_is_told_once_for_a_chain() -> None:
    pool = make_pool((1, 30.0), (0, 0.0))
    pool.started, pool.lost = 5, 3
    states = pool.look_apart(NOW)
    assert [(each.started, each.lost, each.workers) for each in states] == [
        (5, 3, 2),
        (0, 0, 2),
        (0, 0, 2),
    ]
