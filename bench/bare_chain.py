"""The least that a chain of three actors can cost: batches, receipts and one loop, nothing else.

It keeps no account of sources, loses work when a worker dies and asks nobody's leave. What our
engine takes beyond it is the price of those.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import ray

from bench_stages import BATCH, PAYLOAD
from steady_rate import SteadyRate

_STAGES = 3
_CALLS = 2  # per actor: one runs, one's input is fetched; as in our engine
_WAITING = 3  # batches that may wait for an actor


class BareWorker:
    """Passes a batch on and says how many tasks it had."""

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, batch: list[bytes]) -> tuple[list[bytes], int]:
        """The batch, and a receipt."""
        return batch, len(batch)


def run_bare_chain(count: int) -> float:
    """Seconds a task in a chain of three actors, once all is running."""
    actors = [ray.remote(BareWorker).options(num_cpus=0.1).remote() for _ in range(_STAGES)]
    try:
        return _drive(actors, count)
    finally:
        for actor in actors:
            ray.kill(actor)


def _drive(actors: list[Any], count: int) -> float:
    rate = SteadyRate(count, time.perf_counter)
    waiting: list[deque[Any]] = [deque() for _ in actors]
    running = [0] * len(actors)
    calls: dict[Any, tuple[int, Any]] = {}
    listed = done = 0
    while done < count:
        while listed < count and len(waiting[0]) < _WAITING:
            size = min(BATCH, count - listed)
            waiting[0].append([PAYLOAD] * size)
            listed += size
        for stage in reversed(range(len(actors))):
            is_open = stage + 1 == len(actors) or len(waiting[stage + 1]) < _WAITING
            while is_open and waiting[stage] and running[stage] < _CALLS:
                data, receipt = actors[stage].run.remote(waiting[stage].popleft())
                running[stage] += 1
                calls[receipt] = stage, data
        ray.wait(list(calls), timeout=1)
        for receipt in ray.wait(list(calls), num_returns=len(calls), timeout=0)[0]:
            stage, data = calls.pop(receipt)
            running[stage] -= 1
            size = ray.get(receipt)
            if stage + 1 < len(actors):
                waiting[stage + 1].append(data)
            else:
                done += size
                rate.note(done)
    return rate.seconds_per_task
