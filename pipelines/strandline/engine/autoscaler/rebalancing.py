"""Chooses workers to drain so that workers of other stages fit, and drains no more than needed.

Workers never move: capacity that is freed on a node serves a worker on the same node. This module
has no side effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strandline.engine.autoscaler.bin_packing import Units
from strandline.engine.autoscaler.water_filling import PoolDemand


@dataclass(slots=True)
class Exchange:
    """An exchange of workers under construction.

    Attributes:
        counts: worker count of each stage after the exchange.
        free: free units of each node, by node index.
        allocation: workers on each node, by stage.
        spare: how many workers of each stage may be drained.
        drained: number of workers to drain, by stage and node.
    """

    pools: Sequence[PoolDemand]
    counts: list[int]
    free: list[list[int]]
    allocation: list[dict[int, int]]
    spare: list[int]
    drained: dict[tuple[int, int], int] = field(default_factory=dict)

    def make_room(self, stage: int, count: int) -> None:
        """Drain other workers until `count` workers of a stage fit, or as many as possible."""
        needs = self.pools[stage].needs
        for node in self._sort_nodes(needs):
            while count:
                taken = self._choose(stage, node)
                if taken is None:
                    break
                self._carry_out(stage, node, taken)
                count -= 1

    def _sort_nodes(self, needs: Units) -> list[int]:
        """Return the nodes that have spare workers, those that lack the least capacity first."""
        nodes = [
            node
            for node, allocation in enumerate(self.allocation)
            if any(self.spare[stage] and count for stage, count in allocation.items())
        ]

        def lack(node: int) -> float:
            pairs = zip(self.free[node], needs, strict=True)
            return sum(max(0.0, need - have) / need for have, need in pairs if need)

        return sorted(nodes, key=lambda node: (lack(node), node))

    def _choose(self, stage: int, node: int) -> list[int] | None:
        """Choose the workers to drain on a node so that another worker fits. Return their stages.

        Return None if the worker does not fit even if all spare workers are drained.
        """
        needs, taken = self.pools[stage].needs, list[int]()
        missing = [need - have for have, need in zip(self.free[node], needs, strict=True)]
        while max(missing, default=0) > 0:
            candidates = [
                index
                for index, count in self.allocation[node].items()
                if min(count, self.spare[index]) > taken.count(index)
                and any(
                    lacks > 0 and need
                    for lacks, need in zip(missing, self.pools[index].needs, strict=True)
                )
            ]
            if not candidates:
                return None
            best = max(
                candidates, key=lambda candidate: (self._find_level(candidate, taken), -candidate)
            )
            taken.append(best)
            _subtract(missing, self.pools[best].needs)
        for drained in list(taken):  # a later choice may have made an earlier choice unnecessary
            given = [
                lacks + need for lacks, need in zip(missing, self.pools[drained].needs, strict=True)
            ]
            if max(given) <= 0:
                taken.remove(drained)
                missing = given
        return taken

    def _find_level(self, stage: int, taken: Sequence[int]) -> float:
        return self.pools[stage].find_level(self.counts[stage] - taken.count(stage))

    def _carry_out(self, stage: int, node: int, taken: Sequence[int]) -> None:
        for drained in taken:
            self.counts[drained] -= 1
            self.spare[drained] -= 1
            self.allocation[node][drained] -= 1
            self.drained[drained, node] = self.drained.get((drained, node), 0) + 1
            self.free[node] = [
                have + need
                for have, need in zip(self.free[node], self.pools[drained].needs, strict=True)
            ]
        self.counts[stage] += 1
        _subtract(self.free[node], self.pools[stage].needs)


def find_exchange(
    pools: Sequence[PoolDemand],
    counts: Sequence[int],
    target: Sequence[int],
    barred: Sequence[bool],
    site: tuple[Sequence[Units], Sequence[dict[int, int]]],
    order: Sequence[int],
) -> Exchange:
    """Choose drains that bring each stage as close to its target as possible.

    Args:
        counts: worker counts that are reached without any drain.
        barred: whether each stage is protected from drains.
        site: the free units of each node, and the workers on each node, by stage.
        order: stages by decreasing size.
    """
    spare = [
        0 if is_barred else max(0, have - goal)
        for have, goal, is_barred in zip(counts, target, barred, strict=True)
    ]
    free, allocation = site
    exchange = Exchange(
        pools,
        list(counts),
        [list(units) for units in free],
        [dict(counts_there) for counts_there in allocation],
        spare,
    )
    for stage in order:
        exchange.make_room(stage, max(0, target[stage] - counts[stage]))
    return exchange


def _subtract(units: list[int], needs: Units) -> None:
    for kind, need in enumerate(needs):
        units[kind] -= need
