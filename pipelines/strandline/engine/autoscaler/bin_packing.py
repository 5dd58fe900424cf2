"""Packs workers onto nodes. Resources are vectors of whole units, and identical nodes are grouped.

This module has no side effects, and must not depend on rates or on the purpose of a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Units = tuple[int, ...]


class Vacancy(NamedTuple):
    """Free capacity of a group of nodes that have equal free capacity.

    Attributes:
        is_late: whether part of the capacity becomes free only when draining workers have ended.
        free: free units of each node, by kind.
    """

    is_late: bool
    free: Units


class PlacedWorkers(NamedTuple):
    """Workers placed for a stage: `each` workers on every listed node.

    An empty list of nodes means that the workers may run on any node.
    """

    stage: int
    nodes: tuple[int, ...]
    each: int


def count_fitting(free: Sequence[int], needs: Sequence[int]) -> int:
    """Return how many workers fit into the free units; `needs` must not be all zero."""
    return min(have // need for have, need in zip(free, needs, strict=True) if need)


class FreeSpace:
    """Free capacity on all nodes, and the workers placed there. Nodes are identified by index."""

    def __init__(self, nodes: Iterable[Vacancy] = ()) -> None:
        groups: dict[Vacancy, list[int]] = {}
        for node, vacancy in enumerate(nodes):
            groups.setdefault(vacancy, []).append(node)
        self._groups = {vacancy: tuple(group) for vacancy, group in groups.items()}
        self.blocks: list[PlacedWorkers] = []

    def copy(self) -> FreeSpace:
        """Return a copy for trial placements."""
        other = FreeSpace()
        other._groups = dict(self._groups)
        other.blocks = list(self.blocks)
        return other

    def sum_free(self, kinds: int) -> list[int]:
        """Return the free units of each kind, summed over all nodes."""
        totals = [0] * kinds
        for vacancy, nodes in self._groups.items():
            for kind, have in enumerate(vacancy.free):
                totals[kind] += have * len(nodes)
        return totals

    def list_free(self) -> list[Units]:
        """Return the free units of each node, by node index."""
        free = {node: vacancy.free for vacancy, nodes in self._groups.items() for node in nodes}
        return [free[node] for node in range(len(free))]

    def assign(self, stage: int, needs: Units, count: int) -> int:
        """Place up to `count` workers, as many as fit. Return how many workers were placed.

        The nodes with the least free capacity are filled first. Nodes without resources that the
        worker doesn't need come before all others, so that a worker without a GPU leaves GPU nodes
        free.
        """
        if count <= 0 or not self._groups:
            return 0
        if not any(needs):
            self.blocks.append(PlacedWorkers(stage, (), count))
            return count
        left = count
        for vacancy in self._sort_vacancies(needs):
            left -= self._assign_alike(stage, needs, left, vacancy)
            if not left:
                break
        return count - left

    def _assign_alike(self, stage: int, needs: Units, count: int, vacancy: Vacancy) -> int:
        nodes, each = self._groups.pop(vacancy), count_fitting(vacancy.free, needs)
        full = min(count // each, len(nodes))
        rest = min(count - full * each, each) if full < len(nodes) else 0
        # Fill one node after another, so that at most one node stays partly filled.
        self._use(stage, vacancy, needs, nodes[:full], each)
        self._use(stage, vacancy, needs, nodes[full : full + (rest > 0)], rest)
        self._use(stage, vacancy, needs, nodes[full + (rest > 0) :], 0)
        return full * each + rest

    def _use(
        self, stage: int, vacancy: Vacancy, needs: Units, nodes: tuple[int, ...], each: int
    ) -> None:
        if not nodes:
            return
        if each:
            self.blocks.append(PlacedWorkers(stage, nodes, each))
            free = tuple(have - each * need for have, need in zip(vacancy.free, needs, strict=True))
            vacancy = Vacancy(vacancy.is_late, free)
        self._groups[vacancy] = self._groups.get(vacancy, ()) + nodes

    def _sort_vacancies(self, needs: Units) -> list[Vacancy]:
        fitting = [group for group in self._groups if count_fitting(group.free, needs)]
        unused = [kind for kind, need in enumerate(needs) if not need]
        # Among nodes with equally many unneeded resources, prefer capacity that is free now.
        return sorted(
            fitting, key=lambda vacancy: (sum(vacancy.free[kind] > 0 for kind in unused), *vacancy)
        )


def pack(
    room: FreeSpace, needs: Sequence[Units], counts: Sequence[int], order: Sequence[int]
) -> bool:
    """Place `counts` workers of each stage, in `order`. Return False if a stage does not fit."""
    return all(room.assign(stage, needs[stage], counts[stage]) >= counts[stage] for stage in order)


def sort_by_size(needs: Sequence[Units], nodes: Sequence[Units]) -> list[int]:
    """Return stages by decreasing size: first the stages that need a resource of few nodes.

    Args:
        nodes: total units of each node.
    """
    largest = [max(column, default=0) for column in zip(*nodes, strict=True)]
    owners = [sum(have > 0 for have in column) for column in zip(*nodes, strict=True)]

    def size(stage: int) -> tuple[int, float]:
        used = [kind for kind, need in enumerate(needs[stage]) if need]
        if not nodes or not used:
            return len(nodes), 0.0
        share = max(needs[stage][kind] / max(1, largest[kind]) for kind in used)
        return min(owners[kind] for kind in used), -share

    return sorted(range(len(needs)), key=lambda stage: (*size(stage), stage))
