"""Measures the lower bound for chains of Ray actors: calls, receipts, and one loop, nothing else.

Bare chains track no sources, lose work when a worker dies, and wait for no ledger. The extra time
of Strandline's engine is the price of these features.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import ray

from strandline_bench.engines.work.works import Items, Work
from strandline_bench.ground.stages import BATCH, PAYLOAD
from strandline_bench.ground.steady_rate import SteadyRate

_STAGES = 3
_CALLS = 2  # per actor: one running, one fetching its input; the same as in Strandline
_WAITING = 2  # queued batches per actor of a stage; the queue holds one more


class BareStage:
    """An actor that calls a work function and reports the number of items in its result."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, items: Items) -> tuple[Items, int]:
        """Return the result of the work and a receipt."""
        left = self._work(items)
        return left, len(left)


def pass_on(items: Items) -> Items:
    """Return a batch unchanged."""
    return items


def run_bare_chain(count: int) -> float:
    """Return the steady-state seconds per task in a chain of three actors that pass batches on."""
    rate, done = SteadyRate(count, time.perf_counter), 0

    def note(left: int) -> None:
        nonlocal done
        done += left
        rate.note(done)

    batches = ([PAYLOAD] * min(BATCH, count - at) for at in range(0, count, BATCH))
    drive_chain(batches, [(pass_on, 1)] * _STAGES, 0.1, note)
    return rate.seconds_per_task


def drive_chain(
    batches: Iterable[Items],
    stages: Iterable[tuple[Work, int]],
    cpu: float,
    note: Callable[[int], None],
) -> None:
    """Send batches through pools of actors.

    Args:
        batches: input batches, consumed when the first pool has capacity.
        stages: work function and number of actors of each stage.
        cpu: cores that an actor reserves.
        note: called with the number of items in each final batch.
    """
    actor = ray.remote(BareStage).options(num_cpus=cpu)
    pools = [[actor.remote(work) for _ in range(size)] for work, size in stages]
    try:
        _drive(pools, iter(batches), note)
    finally:
        for worker in (worker for pool in pools for worker in pool):
            ray.kill(worker)


def _drive(pools: list[list[Any]], batches: Any, note: Callable[[int], None]) -> None:  # noqa: ANN401 - an iterator
    waiting: list[deque[Any]] = [deque() for _ in pools]
    bounds = [_WAITING * len(pool) + 1 for pool in pools]
    running: dict[Any, int] = {actor: 0 for pool in pools for actor in pool}
    calls: dict[Any, tuple[int, Any, Any]] = {}
    is_listed = False
    while calls or any(waiting) or not is_listed:
        while not is_listed and len(waiting[0]) < bounds[0]:
            batch = next(batches, None)
            is_listed = batch is None
            waiting[0].extend([] if batch is None else [batch])
        for stage in reversed(range(len(pools))):
            is_last = stage + 1 == len(pools)
            while waiting[stage] and (is_last or len(waiting[stage + 1]) < bounds[stage + 1]):
                actor = min(pools[stage], key=running.__getitem__)
                if running[actor] >= _CALLS:
                    break
                running[actor] += 1
                data, receipt = actor.run.remote(waiting[stage].popleft())
                calls[receipt] = stage, actor, data
        ray.wait(list(calls), timeout=1)
        ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for receipt, left in zip(ready, ray.get(ready), strict=True):
            stage, actor, data = calls.pop(receipt)
            running[actor] -= 1
            if stage + 1 == len(pools):
                note(left)
            elif left:
                waiting[stage + 1].append(data)
