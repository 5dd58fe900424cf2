"""Converts a snapshot of stages and nodes into numbers for the planner.

This module has no side effects, and must not depend on the planner's decisions.
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
    """Nodes and stages, identified by index: nodes in name order, stages in pipeline order.

    Attributes:
        kinds: resource kinds that some stage needs; all units are in this order.
        needs: units that a worker needs, by stage.
        nodes: names of the nodes.
        totals: total units of each node.
        allocation: workers on each node that stay, by stage.
        leaving: draining workers on each node, by stage.
    """

    kinds: tuple[str, ...]
    needs: tuple[Units, ...]
    nodes: tuple[str, ...]
    totals: tuple[Units, ...]
    allocation: tuple[dict[int, int], ...]
    leaving: tuple[dict[int, int], ...]

    def find_room(self) -> FreeSpace:
        """Return the capacity that is free once all draining workers have ended."""
        return FreeSpace(
            Vacancy(bool(self.leaving[node]), self._subtract(node, self.allocation))
            for node in range(len(self.nodes))
        )

    def find_empty_room(self) -> FreeSpace:
        """Return the capacity that would be free without any workers."""
        return FreeSpace(Vacancy(False, units) for units in self.totals)  # noqa: FBT003 - a field

    def sum_totals(self) -> list[int]:
        """Return the total units of each kind, summed over all nodes."""
        return [sum(units[kind] for units in self.totals) for kind in range(len(self.kinds))]

    def find_free_now(self, node: int) -> list[int]:
        """Return the units of a node that no worker holds. Draining workers still hold units."""
        return list(self._subtract(node, self.allocation, self.leaving))

    def count_workers(self) -> list[int]:
        """Return the number of placed workers of each stage."""
        counts = [0] * len(self.needs)
        for allocation in self.allocation:
            for stage, count in allocation.items():
                counts[stage] += count
        return counts

    def is_large_enough(self, stage: int) -> bool:
        """Return whether a worker would fit on some node if that node were empty."""
        needs = self.needs[stage]
        return any(not any(needs) or count_fitting(units, needs) > 0 for units in self.totals)

    def _subtract(self, node: int, *allocations: Sequence[Mapping[int, int]]) -> Units:
        free = list(self.totals[node])
        for allocation in allocations:
            for stage, count in allocation[node].items():
                for kind, need in enumerate(self.needs[stage]):
                    free[kind] -= need * count
        # The difference may be negative for a moment, because Ray's view lags behind our own
        # workers.
        return tuple(max(0, have) for have in free)


def survey(inputs: Inputs) -> ClusterSite:
    """Convert a snapshot into a site, where stages and nodes are identified by index."""
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
    """Return the demand of each pool: its bounds, and a worker's speed in sources per second.

    After the end of the listing, a stage's demand is its remaining work, and the stage gets no more
    workers than it has tasks. A stage without remaining tasks does not even need its minimum.
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
        # A worker without needs fits anywhere, so CPUs bound the number of workers.
        ceiling = count_fitting(totals, needs) if any(needs) else cpus
        ceiling = ceiling if stage.ceiling is None else stage.ceiling
        if left is not None:
            ceiling = min(ceiling, math.ceil(left[1][number]))
        # A stage needs no minimum if neither the stage nor an earlier stage has work left.
        ahead += stage.waiting + stage.running
        floor = stage.floor if ahead else 0
        rate = measures[stage.name].rate
        speed = rate if rate is None or demand[number] <= 0 else rate / demand[number]
        speed = math.inf if demand[number] <= 0 else speed
        pools.append(PoolDemand(needs, speed, floor, max(floor, ceiling)))
    return pools
