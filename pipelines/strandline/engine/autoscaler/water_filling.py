"""The most sources per second that workers in some room can do: filling up the slowest stage.

Pure. docs/engine.md has the programme, the proof and the bound. It must not know which workers
exist already, or that a change has a cost.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strandline.engine.autoscaler.bin_packing import Room, Units, count_fitting, pack

HALVINGS = 50
PACKED_HALVINGS = 12


@dataclass(frozen=True, slots=True)
class Crew:
    """A pool as the mathematics sees it.

    Attributes:
        needs: units of one worker, by kind.
        speed: sources per second of one worker; infinite where a source makes no task here; None
            where nothing was measured.
        floor, ceiling: bounds; the ceiling is never below the floor.
    """

    needs: Units
    speed: float | None
    floor: int
    ceiling: int

    @property
    def is_pacing(self) -> bool:
        """Measured, and has something to do."""
        return self.speed is not None and self.speed < math.inf

    def find_level(self, workers: int) -> float:
        """Sources per second of so many workers; infinite where nothing bounds them here."""
        return math.inf if self.speed is None or not self.is_pacing else workers * self.speed

    def count_for(self, level: float) -> int:
        """The fewest workers that do so many sources per second; 0 where it is not pacing."""
        return math.ceil(level / self.speed * (1 - 1e-12)) if self.speed else 0


def find_pace(crews: Sequence[Crew], counts: Sequence[int]) -> float:
    """Sources per second of the slowest stage; infinite where none is measured."""
    return min(
        (crew.find_level(count) for crew, count in zip(crews, counts, strict=True)),
        default=math.inf,
    )


@dataclass(frozen=True, slots=True)
class Filling:
    """Workers of each stage, and the room with those in it that were added."""

    counts: list[int]
    room: Room


def fill(crews: Sequence[Crew], counts: Sequence[int], room: Room, order: Sequence[int]) -> Filling:
    """Add workers so that the slowest stage is as fast as it can be.

    Args:
        counts: workers that are there; none is taken away.
        order: stages by decreasing size.
    """
    best = Filling(list(counts), room.copy())
    goal = find_bound(crews, counts, room)
    if not goal:
        return best

    def is_packed(level: float) -> bool:
        nonlocal best
        wanted, trial = _want(crews, counts, level), room.copy()
        added = [after - before for after, before in zip(wanted, counts, strict=True)]
        if not pack(trial, [crew.needs for crew in crews], added, order):
            return False
        best = Filling(wanted, trial)
        return True

    bisect(is_packed, find_pace(crews, counts), goal, PACKED_HALVINGS)
    return _raise_slowest(crews, best)


def find_bound(crews: Sequence[Crew], counts: Sequence[int], room: Room) -> float:
    """The pace if nodes had no borders; 0 where it can't be more than it is."""
    free = room.sum_free(len(crews[0].needs)) if crews else []
    low = find_pace(crews, counts)
    high = find_pace(crews, _find_limits(crews, counts, free))
    if not low < high < math.inf:
        return 0.0
    return bisect(
        lambda level: _fits(crews, counts, _want(crews, counts, level), free), low, high, HALVINGS
    )


def _want(crews: Sequence[Crew], counts: Sequence[int], level: float) -> list[int]:
    """The fewest workers for a level: any allocation that reaches it has at least these."""
    return [max(count, crew.count_for(level)) for crew, count in zip(crews, counts, strict=True)]


def bisect(holds: Callable[[float], bool], low: float, high: float, halvings: int) -> float:
    """A level as high as possible that holds; `low` is taken to hold, `high` is tried first."""
    if holds(high):
        return high
    for _ in range(halvings):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _raise_slowest(crews: Sequence[Crew], filling: Filling) -> Filling:
    """One worker at a time for whoever is slowest, until that one can't have another."""
    counts, room = list(filling.counts), filling.room
    heap = [
        (crew.find_level(count), stage)
        for stage, (crew, count) in enumerate(zip(crews, counts, strict=True))
        if crew.is_pacing
    ]
    heapq.heapify(heap)
    while heap:
        stage = heap[0][1]
        crew = crews[stage]
        if counts[stage] >= crew.ceiling or not room.place(stage, crew.needs, 1):
            break
        counts[stage] += 1
        heapq.heapreplace(heap, (crew.find_level(counts[stage]), stage))
    return Filling(counts, room)


def get_ahead(
    crews: Sequence[Crew], before: Sequence[int], filling: Filling, headroom: float
) -> Filling:
    """Let pools that have grown go a little beyond the pace, so that they need not grow again.

    Whoever sets the pace has found no more room, so nobody is kept from what it could use.
    """
    counts, room = list(filling.counts), filling.room
    goal = find_pace(crews, counts) * headroom
    for stage, crew in enumerate(crews):
        if crew.is_pacing and counts[stage] > before[stage]:
            wanted = min(crew.ceiling, crew.count_for(goal))
            counts[stage] += room.place(stage, crew.needs, wanted - counts[stage])
    return Filling(counts, room)


def share_equally(crews: Sequence[Crew], totals: Sequence[int]) -> list[int]:
    """Workers of each stage where each gets one more in turn, from the floors on.

    Args:
        totals: units of all nodes together. A stage that needs none stays at its floor.
    """
    counts = [crew.floor for crew in crews]
    free = list(totals)
    for crew in crews:
        _take(free, crew.needs, crew.floor)
    going = [stage for stage, crew in enumerate(crews) if any(crew.needs)]
    while going:
        rounds = _count_rounds(crews, counts, free, going)
        for stage in list(going):
            crew = crews[stage]
            step = rounds or 1
            if counts[stage] + step > crew.ceiling or count_fitting(free, crew.needs) < step:
                going.remove(stage)
            else:
                counts[stage] += step
                _take(free, crew.needs, step)
    return counts


def _count_rounds(
    crews: Sequence[Crew], counts: Sequence[int], free: Sequence[int], going: Sequence[int]
) -> int:
    """Whole rounds that all can go; done at once, since there may be thousands."""
    sums = [sum(crews[stage].needs[kind] for stage in going) for kind in range(len(free))]
    least = min(crews[stage].ceiling - counts[stage] for stage in going)
    return max(0, min(least, count_fitting(free, sums)))


def _take(free: list[int], needs: Units, count: int) -> None:
    for kind, need in enumerate(needs):
        free[kind] -= need * count


def _find_limits(crews: Sequence[Crew], counts: Sequence[int], free: Sequence[int]) -> list[int]:
    """The most workers that each stage could have if it were alone."""
    limits = []
    for crew, count in zip(crews, counts, strict=True):
        limit = max(count, crew.ceiling)
        if any(crew.needs):
            limit = min(limit, count + max(0, count_fitting(free, crew.needs)))
        limits.append(limit)
    return limits


def _fits(
    crews: Sequence[Crew], counts: Sequence[int], wanted: Sequence[int], free: Sequence[int]
) -> bool:
    left = list(free)
    for crew, before, after in zip(crews, counts, wanted, strict=True):
        _take(left, crew.needs, after - before)
    return min(left, default=0) >= 0
