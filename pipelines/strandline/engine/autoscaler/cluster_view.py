"""The stages and nodes of one look, in numbers: what the planner reckons with. Pure.

It must not know what is decided by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from strandline.engine.autoscaler.bin_packing import FreeSpace, Units, Vacancy, count_fitting
from strandline.engine.autoscaler.model import (
    FRACTIONS,
    Inputs,
    Measure,
    NodeLook,
    find_demand,
    find_left,
)
from strandline.engine.autoscaler.water_filling import PoolDemand


@dataclass(frozen=True, slots=True)
class ClusterSite:
    """Nodes by number, in the order of their names; stages by number, in order.

    Attributes:
        kinds: of resources that some stage needs; all units are in this order.
        needs: units of a worker of each stage.
        nodes: their names.
        totals: units of each node.
        allocation, leaving: workers on each node, by stage: those that stay, those that drain.
    """

    kinds: tuple[str, ...]
    needs: tuple[Units, ...]
    nodes: tuple[str, ...]
    totals: tuple[Units, ...]
    allocation: tuple[dict[int, int], ...]
    leaving: tuple[dict[int, int], ...]

    def find_room(self) -> FreeSpace:
        """Room as it will be once those that drain have ended."""
        return FreeSpace(
            Vacancy(bool(self.leaving[node]), self._subtract(node, self.allocation))
            for node in range(len(self.nodes))
        )

    def find_empty_room(self) -> FreeSpace:
        """Room as it would be without any worker."""
        return FreeSpace(Vacancy(False, units) for units in self.totals)  # noqa: FBT003 - a field

    def sum_totals(self) -> list[int]:
        """Return units of all nodes together."""
        return [sum(units[kind] for units in self.totals) for kind in range(len(self.kinds))]

    def find_free_now(self, node: int) -> list[int]:
        """Return units of a node that no worker holds, not even one that drains."""
        return list(self._subtract(node, self.allocation, self.leaving))

    def count_workers(self) -> list[int]:
        """Return workers of each stage that are on some node."""
        counts = [0] * len(self.needs)
        for allocation in self.allocation:
            for stage, count in allocation.items():
                counts[stage] += count
        return counts

    def is_large_enough(self, stage: int) -> bool:
        """Would one worker fit on any node, were it empty?"""
        needs = self.needs[stage]
        return any(not any(needs) or count_fitting(units, needs) > 0 for units in self.totals)

    def _subtract(self, node: int, *allocations: Sequence[Mapping[int, int]]) -> Units:
        free = list(self.totals[node])
        for allocation in allocations:
            for stage, count in allocation[node].items():
                for kind, need in enumerate(self.needs[stage]):
                    free[kind] -= need * count
        return tuple(max(0, have) for have in free)


def survey(inputs: Inputs) -> ClusterSite:
    """Return the site of a look."""
    units = [stage.needs.count_units() for stage in inputs.stages]
    kinds = tuple(sorted({kind for unit in units for kind in unit}))
    numbers = {stage.name: number for number, stage in enumerate(inputs.stages)}
    nodes = sorted(inputs.nodes, key=lambda node: node.name)
    return ClusterSite(
        kinds=kinds,
        needs=tuple(tuple(unit.get(kind, 0) for kind in kinds) for unit in units),
        nodes=tuple(node.name for node in nodes),
        totals=tuple(_count_units(node, kinds) for node in nodes),
        allocation=tuple(_number(node.workers, numbers) for node in nodes),
        leaving=tuple(_number(node.draining, numbers) for node in nodes),
    )


def _count_units(node: NodeLook, kinds: Iterable[str]) -> Units:
    units = node.resources.count_units()
    return tuple(units.get(kind, 0) for kind in kinds)


def _number(workers: Mapping[str, int], numbers: Mapping[str, int]) -> dict[int, int]:
    return {numbers[name]: count for name, count in sorted(workers.items()) if count > 0}


def list_pools(
    inputs: Inputs, site: ClusterSite, measures: Mapping[str, Measure]
) -> list[PoolDemand]:
    """Return the pools of a look: what bounds each, and how fast one worker of it is in sources.

    Once the listing has ended, a stage's demand is what it has left, and it gets no more workers
    than there are tasks for: where there are none, it needs not even its floor.
    """
    demand = find_demand(inputs.stages)
    left = find_left(inputs, demand)
    if left is not None:
        sources, tasks = left
        demand = [task / sources if sources else 0.0 for task in tasks]
    cpus = sum(node.resources.count_units().get("cpu", 0) for node in inputs.nodes) // FRACTIONS
    totals = site.sum_totals()
    pools = []
    ahead = 1 if inputs.sources_left is None else inputs.sources_left
    for number, stage in enumerate(inputs.stages):
        needs = site.needs[number]
        ceiling = count_fitting(totals, needs) if any(needs) else cpus
        ceiling = ceiling if stage.ceiling is None else stage.ceiling
        if left is not None:
            ceiling = min(ceiling, math.ceil(left[1][number]))
        # Where nothing is left up to it, nothing will come to it, unless something is lost.
        ahead += stage.waiting + stage.running
        floor = stage.floor if ahead else 0
        rate = measures[stage.name].rate
        speed = rate if rate is None or demand[number] <= 0 else rate / demand[number]
        speed = math.inf if demand[number] <= 0 else speed
        pools.append(PoolDemand(needs, speed, floor, max(floor, ceiling)))
    return pools
