"""Which workers to drain so that others find room: on one node each, and never more than needed.

Pure. Workers stay where they are; what one node frees serves a worker on that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strandline.engine.autoscaler.bin_packing import Units
from strandline.engine.autoscaler.water_filling import Crew


@dataclass(slots=True)
class Exchange:
    """An exchange being worked out.

    Attributes:
        counts: workers of each stage once it is done.
        free: units of each node, by its number.
        staff: workers on each node, by stage.
        spare: how many of each stage may go.
        drained: workers to drain, by stage and node.
    """

    crews: Sequence[Crew]
    counts: list[int]
    free: list[list[int]]
    staff: list[dict[int, int]]
    spare: list[int]
    drained: dict[tuple[int, int], int] = field(default_factory=dict)

    def make_room(self, stage: int, count: int) -> None:
        """Drain for so many workers of a stage, or for as many as can be."""
        needs = self.crews[stage].needs
        for node in self._sort_nodes(needs):
            while count:
                taken = self._choose(stage, node)
                if taken is None:
                    break
                self._carry_out(stage, node, taken)
                count -= 1

    def _sort_nodes(self, needs: Units) -> list[int]:
        """Nodes with workers to spare, those first that lack least."""
        nodes = [
            node
            for node, staff in enumerate(self.staff)
            if any(self.spare[stage] and count for stage, count in staff.items())
        ]

        def lack(node: int) -> float:
            pairs = zip(self.free[node], needs, strict=True)
            return sum(max(0.0, need - have) / need for have, need in pairs if need)

        return sorted(nodes, key=lambda node: (lack(node), node))

    def _choose(self, stage: int, node: int) -> list[int] | None:
        """The stages of the workers to drain on a node for one more; None where they don't do."""
        needs, taken = self.crews[stage].needs, list[int]()
        missing = [need - have for have, need in zip(self.free[node], needs, strict=True)]
        while max(missing, default=0) > 0:
            candidates = [
                one
                for one, count in self.staff[node].items()
                if min(count, self.spare[one]) > taken.count(one)
                and any(
                    lacks > 0 and need
                    for lacks, need in zip(missing, self.crews[one].needs, strict=True)
                )
            ]
            if not candidates:
                return None
            best = max(candidates, key=lambda one: (self._find_level(one, taken), -one))
            taken.append(best)
            _subtract(missing, self.crews[best].needs)
        for one in list(taken):  # the last may have made an earlier one superfluous
            given = [
                lacks + need for lacks, need in zip(missing, self.crews[one].needs, strict=True)
            ]
            if max(given) <= 0:
                taken.remove(one)
                missing = given
        return taken

    def _find_level(self, stage: int, taken: Sequence[int]) -> float:
        return self.crews[stage].find_level(self.counts[stage] - taken.count(stage))

    def _carry_out(self, stage: int, node: int, taken: Sequence[int]) -> None:
        for one in taken:
            self.counts[one] -= 1
            self.spare[one] -= 1
            self.staff[node][one] -= 1
            self.drained[one, node] = self.drained.get((one, node), 0) + 1
            self.free[node] = [
                have + need
                for have, need in zip(self.free[node], self.crews[one].needs, strict=True)
            ]
        self.counts[stage] += 1
        _subtract(self.free[node], self.crews[stage].needs)


def find_exchange(
    crews: Sequence[Crew],
    counts: Sequence[int],
    target: Sequence[int],
    barred: Sequence[bool],
    site: tuple[Sequence[Units], Sequence[dict[int, int]]],
    order: Sequence[int],
) -> Exchange:
    """The drains that bring each stage up to its target, as far as they can.

    Args:
        counts: workers that are there, or will be without any drain.
        barred: stages that must not be drained.
        site: the free units of each node, and the workers on each, by stage.
        order: stages by decreasing size.
    """
    spare = [
        0 if is_barred else max(0, have - goal)
        for have, goal, is_barred in zip(counts, target, barred, strict=True)
    ]
    free, staff = site
    exchange = Exchange(
        crews, list(counts), [list(units) for units in free], [dict(one) for one in staff], spare
    )
    for stage in order:
        exchange.make_room(stage, max(0, target[stage] - counts[stage]))
    return exchange


def _subtract(units: list[int], needs: Units) -> None:
    for kind, need in enumerate(needs):
        units[kind] -= need
