"""Chains of bare Ray actors on a case: calls, receipts and one loop, and nothing that survives.

As in `bare_chain`, but with several actors a stage and any work. It is told how many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from engine_works import Items, Work

if TYPE_CHECKING:  # a worker need not load what the examples are made of
    from engine_cases import Case

_CALLS = 2  # per actor: one runs, one's input is fetched; as in our engine
_WAITING = 2  # batches that may wait for each actor of a stage, and one more


class BareStage:
    """Calls a work and says how many items it left."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, items: Items) -> tuple[Items, int]:
        """What the work makes of the items, and a receipt."""
        left = self._work(items)
        return left, len(left)


def run(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """The case in a chain whose sizes are given."""
    items = case.items()
    begin()
    actor = ray.remote(BareStage).options(num_cpus=case.cpu)
    pools = [
        [actor.remote(work) for _ in range(size)]
        for work, size in zip(case.works, case.sizes, strict=True)
    ]
    try:
        _drive(pools, deque(_cut(items, case.batch)))
    finally:
        for one in (one for pool in pools for one in pool):
            ray.kill(one)


def _cut(items: Items, size: int) -> list[Items]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _drive(pools: list[list[Any]], batches: deque[Any]) -> None:
    waiting: list[deque[Any]] = [deque() for _ in pools]
    waiting[0] = batches
    bounds = [_WAITING * len(pool) + 1 for pool in pools]
    running: dict[Any, int] = {actor: 0 for pool in pools for actor in pool}
    calls: dict[Any, tuple[int, Any, Any]] = {}
    while calls or any(waiting):
        for stage in reversed(range(len(pools))):
            while waiting[stage] and (
                stage + 1 == len(pools) or len(waiting[stage + 1]) < bounds[stage + 1]
            ):
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
            if left and stage + 1 < len(pools):
                waiting[stage + 1].append(data)
