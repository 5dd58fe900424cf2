"""Which sources must be worked on as one since they share storage, and how groups spread.

Pure: items, and the names of what each of them shares. It knows neither stages nor ledgers.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Joining:
    """The finest groups in which all items that share something are together.

    Two items are in one group where a chain of shares leads from one to the other, whoever has
    declared its links. Items are numbered as they are added; a group is known by its least item.
    """

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._first: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, shares: Iterable[str]) -> None:
        """Add the next item, with the names of what it shares."""
        item = len(self._parents)
        self._parents.append(item)
        for name in shares:
            ends = self.find(item), self.find(self._first.setdefault(name, item))
            self._parents[max(ends)] = min(ends)

    def find(self, item: int) -> int:
        """The group of an item."""
        parents = self._parents
        while parents[item] != item:
            parents[item] = item = parents[parents[item]]
        return item


def find_chain(shares: Mapping[str, Collection[str]]) -> list[str]:
    """Why the items of a group are together: item, name, item, ... from the least to the farthest.

    Args:
        shares: the names of what each item shares, by item; all of one group.
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for item in sorted(shares):
        for name in shares[item]:
            holders[name].append(item)
    begin = min(shares)
    links: dict[str, tuple[str, str] | None] = {begin: None}
    steps = {begin: 0}
    waiting = [begin]
    for item in waiting:
        for name in sorted(shares[item]):
            for other in holders.pop(name, ()):
                if other not in links:
                    links[other] = item, name
                    steps[other] = steps[item] + 1
                    waiting.append(other)
    return _follow(links, max(steps, key=steps.__getitem__))


def _follow(links: Mapping[str, tuple[str, str] | None], end: str) -> list[str]:
    chain = [end]
    while (link := links[chain[-1]]) is not None:
        item, name = link
        chain += [name, item]
    return chain[::-1]


class Balance(NamedTuple):
    """How groups spread over workers.

    Attributes:
        sizes: sources of each group, the largest first.
        loads: sources of each worker.
    """

    sizes: Sequence[int]
    loads: Sequence[int]

    @property
    def ratio(self) -> float:
        """The largest load, in mean loads: 1 is the best there is."""
        return max(self.loads) * len(self.loads) / sum(self.loads)


def pack(sizes: Iterable[int], workers: int) -> Balance:
    """Give groups to workers, the largest first, each to the one that has least.

    It is what workers come to that take the next group whenever they have done one. The largest
    load is at most 4/3 of the least that there could be.

    Args:
        sizes: one or more, each at least 1.
    """
    ordered = sorted(sizes, reverse=True)
    loads = [0] * workers
    for size in ordered:
        heapq.heapreplace(loads, loads[0] + size)
    return Balance(ordered, sorted(loads, reverse=True))
