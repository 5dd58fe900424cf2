"""Sizes calls and queues of all pools of a run, based on the cost of earlier tasks.

The module must not depend on the kind of worker, or on how calls are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.engine.autoscaler.model import find_ratio
from strandline.engine.core.call_size import (
    CALL_SECONDS,
    SINK_SECONDS,
    DriverLoad,
    FileFilling,
    StageLoad,
    bound_call,
    level_calls,
    size_call,
)
from strandline.engine.core.pools import bound_calls, bound_queue
from strandline.engine.core.worker_pool import Pool
from strandline.engine.flow.chains import Chain
from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.worker.chain_call import SPILL_SECONDS, SPILL_SECONDS_OF_SINKS
from strandline.plan.receipt import StageCounts


class WorkerCount(NamedTuple):
    """Worker counts of a stage.

    Attributes:
        starting, staying, takers: see `Pool`.
    """

    starting: int
    staying: int
    takers: int


class SizedPools:
    """All pools of a run.

    Args:
        chains: the chains of the run; each gets a pool.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._pools = [Pool(chain) for chain in chains]
        self._counts: dict[int, WorkerCount] = {}
        self._load = DriverLoad()

    def __getitem__(self, stage: int) -> Pool:
        return self._pools[stage]

    def __len__(self) -> int:
        return len(self._pools)

    def bound_calls(self, stage: int, waiting: int, link: int = 0, *, is_all: bool = False) -> int:
        """Return how many calls a worker of a stage may have now; see `pools.bound_calls`.

        Args:
            waiting: number of waiting slots.
            link: in a chain, the index of the stage that the next waiting slot enters.
            is_all: whether no slots will follow the waiting slots.
        """
        pool, workers = self[stage], self._count(stage)
        taken = self._bound_call(pool, link) * workers.staying if is_all else 0
        return bound_calls(pool.plan, waiting, workers.starting, taken)

    def level(self, counts: Sequence[StageCounts]) -> None:
        """Set the call size of each stage from the cost and the output of earlier tasks.

        Call this method before the calls of a turn. The method discards counts that are cached per
        turn.
        """
        for stage in range(len(self)):
            self.forget(stage)
        loads = [self._describe(stage, seen) for stage, seen in enumerate(counts)]
        for pool, size in zip(self._pools, level_calls(loads), strict=True):
            pool.call = size

    def _describe(self, stage: int, seen: StageCounts) -> StageLoad:
        pool = self._pools[stage]
        batch, large = pool.plan.batch_size, self.find_bytes_in(stage)
        seconds = self._load.bound_seconds(CALL_SECONDS)
        pace = most = bound_call(pool.cost, large, batch, seconds)
        if pool.chain.writes:
            seconds = self._load.bound_seconds(SINK_SECONDS)
            most = bound_call(pool.cost, large, batch, seconds)
        ratio = find_ratio(seen.tasks_in, seen.tasks_out)
        return StageLoad(most, pool.plan.group or batch, pool.takers, ratio, pace)

    def size_call(self, stage: int, waiting: int, link: int = 0) -> int:
        """Return the number of slots of a stage's next call.

        Args:
            waiting: number of waiting slots.
            link: in a chain, the index of the stage that the next waiting slot enters.
        """
        pool = self[stage]
        batch = pool.plan.batch_size
        if pool.plan.timeout is not None:
            return batch  # all tasks of a call share the time limit of the call
        workers = self._count(stage).staying
        most = self._bound_call(pool, link)
        return size_call(most, batch, waiting, workers, self._load.stretch)

    def _bound_call(self, pool: Pool, link: int) -> int:
        """Return the maximum slots of a call, based on their cost."""
        if not link:
            return pool.call
        # A worker has returned these slots, because they were more work than one call should have.
        seconds = SPILL_SECONDS_OF_SINKS if pool.chain.writes else SPILL_SECONDS
        return bound_call(pool.costs[link], pool.cost.bytes_out, pool.plan.batch_size, seconds)

    def make_room(self, stage: int, tasks: int) -> int:
        """Enlarge a stage's calls and queue to at least `tasks` tasks. Return `tasks`."""
        self[stage].call = max(self[stage].call, tasks)
        return tasks

    def bound_queue(self, stage: int) -> int:
        """Return the number of slots that may wait for a stage."""
        pool = self[stage]
        return bound_queue(pool.call, self._count(stage).takers)

    def forget(self, stage: int) -> None:
        """Discard the cached worker counts of a stage, because a worker has changed."""
        self._counts.pop(stage, None)

    def _count(self, stage: int) -> WorkerCount:
        if stage not in self._counts:
            pool = self[stage]
            self._counts[stage] = WorkerCount(pool.starting, pool.staying, pool.takers)
        return self._counts[stage]

    def find_bytes_in(self, stage: int) -> float:
        """Return the size in bytes of a task that enters a stage; 0 if unknown."""
        return self[stage - 1].cost.bytes_out if stage else 0.0

    def has_room_below(self, stage: int, queues: Sequence[StageQueue]) -> bool:
        """Return whether the queue of the next stage can take more output of a stage."""
        below = stage + 1
        return below == len(self) or len(queues[below]) < self.bound_queue(below)

    def fill(
        self, filling: FileFilling, waiting: int, now: float, *, may_grow: bool
    ) -> tuple[int, int]:
        """Return how many slots fill a file of the sink, and how many slots must be waiting.

        Args:
            waiting: number of slots that wait for the sink.
            now: seconds from any fixed point.
            may_grow: whether more slots may arrive.
        """
        sink = len(self) - 1
        size = self.find_bytes_in(sink)
        tasks = self.make_room(sink, filling.count_tasks(size))
        must_wait = filling.must_wait(waiting, size, now, may_grow=may_grow)
        return tasks, tasks if must_wait else 0
