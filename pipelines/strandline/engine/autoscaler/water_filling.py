"""Maximizes sources per second within given capacity by adding workers to the slowest stage.

docs/design/2026-11-27-how-many-workers.md has the proof. This module has no side effects, and must
not consider the cost of a change, or which workers exist already.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strandline.engine.autoscaler.bin_packing import FreeSpace, Units, count_fitting, pack

HALVINGS = 50
# Packing is slower than summing, so use fewer bisection steps. `_raise_slowest` compensates for the
# lower precision.
PACKED_HALVINGS = 12


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """The demand of a pool.

    Attributes:
        needs: units that one worker needs, by kind.
        speed: sources per second of one worker; infinite if sources cause no tasks for the stage;
            None if not measured.
        floor, ceiling: bounds; the ceiling is never below the floor.
    """

    needs: Units
    speed: float | None
    floor: int
    ceiling: int

    @property
    def is_pacing(self) -> bool:
        """Return whether the pool is measured and has work."""
        return self.speed is not None and self.speed < math.inf

    def find_level(self, workers: int) -> float:
        """Return the sources per second of some workers; infinite if the pool sets no limit."""
        return math.inf if self.speed is None or not self.is_pacing else workers * self.speed

    def count_for(self, level: float) -> int:
        """Return the smallest worker count that reaches a rate in sources per second.

        Return 0 if the pool is not measured or has no work.
        """
        # Tolerate rounding errors, so that an exact multiple does not get an additional worker.
        return math.ceil(level / self.speed * (1 - 1e-12)) if self.speed else 0


def find_pace(pools: Sequence[PoolDemand], counts: Sequence[int]) -> float:
    """Return the sources per second of the slowest stage; infinite if no stage is measured."""
    return min(
        (pool.find_level(count) for pool, count in zip(pools, counts, strict=True)),
        default=math.inf,
    )


@dataclass(frozen=True, slots=True)
class FillResult:
    """Worker counts by stage, and the capacity that is left after placing the added workers."""

    counts: list[int]
    room: FreeSpace


def fill(
    pools: Sequence[PoolDemand], counts: Sequence[int], room: FreeSpace, order: Sequence[int]
) -> FillResult:
    """Add workers so that the slowest stage becomes as fast as possible.

    Args:
        counts: counts of existing workers, which are all kept.
        order: stages by decreasing size.
    """
    best = FillResult(list(counts), room.copy())
    goal = find_bound(pools, counts, room)
    if not goal:
        return best

    def is_packed(level: float) -> bool:
        nonlocal best
        wanted, trial = _want(pools, counts, level), room.copy()
        added = [after - before for after, before in zip(wanted, counts, strict=True)]
        if not pack(trial, [pool.needs for pool in pools], added, order):
            return False
        best = FillResult(wanted, trial)
        return True

    bisect(is_packed, find_pace(pools, counts), goal, PACKED_HALVINGS)
    return _raise_slowest(pools, best)


def find_bound(pools: Sequence[PoolDemand], counts: Sequence[int], room: FreeSpace) -> float:
    """Return an upper bound of the pace, or 0 if the pace can't rise.

    The bound treats the capacity of all nodes as the capacity of one large node.
    """
    free = room.sum_free(len(pools[0].needs)) if pools else []
    low = find_pace(pools, counts)
    high = find_pace(pools, _find_limits(pools, counts, free))
    if not low < high < math.inf:
        return 0.0
    return bisect(
        lambda level: _fits(pools, counts, _want(pools, counts, level), free), low, high, HALVINGS
    )


def _want(pools: Sequence[PoolDemand], counts: Sequence[int], level: float) -> list[int]:
    """Return the smallest worker count of each stage that reaches a level."""
    return [max(count, pool.count_for(level)) for pool, count in zip(pools, counts, strict=True)]


def bisect(holds: Callable[[float], bool], low: float, high: float, halvings: int) -> float:
    """Return the highest level found for which `holds` returns True.

    `holds(low)` is assumed to be True; `high` is tried first.
    """
    if holds(high):
        return high
    for _ in range(halvings):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _raise_slowest(pools: Sequence[PoolDemand], filling: FillResult) -> FillResult:
    """Add workers to the slowest stage, one by one, until the slowest stage can't grow."""
    counts, room = list(filling.counts), filling.room
    heap = [
        (pool.find_level(count), stage)
        for stage, (pool, count) in enumerate(zip(pools, counts, strict=True))
        if pool.is_pacing
    ]
    heapq.heapify(heap)
    while heap:
        stage = heap[0][1]
        pool = pools[stage]
        if counts[stage] >= pool.ceiling or not room.assign(stage, pool.needs, 1):
            break
        counts[stage] += 1
        heapq.heapreplace(heap, (pool.find_level(counts[stage]), stage))
    return FillResult(counts, room)


def get_ahead(
    pools: Sequence[PoolDemand], before: Sequence[int], filling: FillResult, headroom: float
) -> FillResult:
    """Grow the pools that have grown slightly further, so that they need not grow again soon.

    The slowest stage loses nothing by this, because no more capacity fits its workers.
    """
    counts, room = list(filling.counts), filling.room
    goal = find_pace(pools, counts) * headroom
    for stage, pool in enumerate(pools):
        if pool.is_pacing and counts[stage] > before[stage]:
            wanted = min(pool.ceiling, pool.count_for(goal))
            counts[stage] += room.assign(stage, pool.needs, wanted - counts[stage])
    return FillResult(counts, room)


def share_equally(pools: Sequence[PoolDemand], totals: Sequence[int]) -> list[int]:
    """Return worker counts if the stages get workers in turn, in addition to their minimums.

    Args:
        totals: total units of each kind, summed over all nodes. A stage without needs stays at its
            minimum.
    """
    counts = [pool.floor for pool in pools]
    free = list(totals)
    for pool in pools:
        _take(free, pool.needs, pool.floor)
    going = [stage for stage, pool in enumerate(pools) if any(pool.needs)]
    while going:
        rounds = _count_rounds(pools, counts, free, going)
        for stage in list(going):
            pool = pools[stage]
            step = rounds or 1
            if counts[stage] + step > pool.ceiling or count_fitting(free, pool.needs) < step:
                going.remove(stage)
            else:
                counts[stage] += step
                _take(free, pool.needs, step)
    return counts


def _count_rounds(
    pools: Sequence[PoolDemand], counts: Sequence[int], free: Sequence[int], going: Sequence[int]
) -> int:
    """Return how many complete rounds fit. The rounds are not simulated: there may be thousands."""
    sums = [sum(pools[stage].needs[kind] for stage in going) for kind in range(len(free))]
    least = min(pools[stage].ceiling - counts[stage] for stage in going)
    return max(0, min(least, count_fitting(free, sums)))


def _take(free: list[int], needs: Units, count: int) -> None:
    for kind, need in enumerate(needs):
        free[kind] -= need * count


def _find_limits(
    pools: Sequence[PoolDemand], counts: Sequence[int], free: Sequence[int]
) -> list[int]:
    """Return the largest possible worker count of each stage if no other stage grew."""
    limits = []
    for pool, count in zip(pools, counts, strict=True):
        limit = max(count, pool.ceiling)
        if any(pool.needs):
            limit = min(limit, count + max(0, count_fitting(free, pool.needs)))
        limits.append(limit)
    return limits


def _fits(
    pools: Sequence[PoolDemand], counts: Sequence[int], wanted: Sequence[int], free: Sequence[int]
) -> bool:
    left = list(free)
    for pool, before, after in zip(pools, counts, wanted, strict=True):
        _take(left, pool.needs, after - before)
    return min(left, default=0) >= 0
