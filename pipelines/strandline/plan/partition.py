"""Finds groups of sources that must be processed together because they share storage.

The input is items with the names of their shared storage. This module has no side effects. The
module must not depend on stages or ledgers.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_NEAR = 64  # try chunk sizes up to this distance from the given size


class StorageGroups:
    """The smallest groups that keep all items with shared storage together.

    Two items are in one group if a chain of shared names connects them. The stage that declared a
    name does not matter. Items are numbered from 0 in the order of `add` calls, and the smallest
    number in a group identifies the group.
    """

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._first: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, shares: Iterable[str]) -> None:
        """Add the next item, with the names of its shared storage."""
        item = len(self._parents)
        self._parents.append(item)
        for name in shares:
            ends = self.find(item), self.find(self._first.setdefault(name, item))
            # The smaller number becomes the root, because the smallest number identifies a group.
            self._parents[max(ends)] = min(ends)

    def find(self, item: int) -> int:
        """Return the group of an item."""
        parents = self._parents
        while parents[item] != item:
            # Halve the path during the search, so that later searches take almost constant time.
            parents[item] = item = parents[parents[item]]
        return item


def find_chain(shares: Mapping[str, Collection[str]]) -> list[str]:
    """Return the chain that connects a group: item, name, item, and so on, from the smallest item.

    Args:
        shares: names of shared storage by item, for the items of one group.
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for item in sorted(shares):
        for name in shares[item]:
            holders[name].append(item)
    begin = min(shares)
    links: dict[str, tuple[str, str] | None] = {begin: None}
    steps = {begin: 0}
    waiting = [begin]
    # The list grows during the loop. The search is breadth-first, so the chain is the shortest.
    for item in waiting:
        for name in sorted(shares[item]):
            # Follow a name only once: the first visit already finds all items with this name.
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


class LargestGroup(NamedTuple):
    """Size and kind of the largest group among some sources.

    Attributes:
        size: number of sources in the group.
        total: number of all sources.
        is_chain: whether no single name is common to the group, so only pairwise links connect the
            sources.
    """

    size: int
    total: int
    is_chain: bool

    @property
    def holds_most(self) -> bool:
        """Return whether the group has more than half of all sources."""
        return 2 * self.size > self.total


def find_largest(shares: Sequence[Collection[str]]) -> LargestGroup:
    """Find the largest group of items.

    Args:
        shares: names of the shared storage of each item.
    """
    groups = _join(shares)
    group, size = max(Counter(groups).items(), key=lambda pair: pair[1], default=(0, 0))
    members = (set(names) for item, names in zip(groups, shares, strict=True) if item == group)
    holders = Counter(name for names in members for name in names)
    # If no name occurs in all members, only links between pairs hold the group together.
    is_chain = size > 1 and max(holders.values(), default=0) < size
    return LargestGroup(size, len(shares), is_chain)


def find_usual_size(shares: Sequence[Collection[str]]) -> int:
    """Return the most frequent group size, or 1 if there are no groups."""
    sizes = Counter(Counter(_join(shares)).values())
    # The largest of equally frequent sizes wins, so the result does not depend on the order.
    return max(sizes.items(), key=lambda pair: (pair[1], pair[0]), default=(1, 0))[0]


def _join(shares: Iterable[Iterable[str]]) -> list[int]:
    joining = StorageGroups()
    for names in shares:
        joining.add(names)
    return [joining.find(item) for item in range(len(joining))]


def find_chunk(
    chunk: int, usual: int, most: int, measure: Callable[[int], LargestGroup | None]
) -> tuple[int, LargestGroup] | None:
    """Return the nearest chunk size without a large chain, and its largest group.

    Args:
        chunk: the chunk size that causes a chain.
        usual: usual group size of the other side, whose borders chunks should meet.
        most: limit of sources in a group.
        measure: returns the largest group for another chunk size, or None if it is not allowed.
    """
    for other in _list_chunks(chunk, usual):
        largest = measure(other)
        if largest is not None and not _is_bad(largest, most):
            return other, largest
    return None


def _is_bad(largest: LargestGroup, most: int) -> bool:
    # Reject even a short chain: the chain would grow with the listing.
    return largest.holds_most or largest.is_chain or largest.size > most


def _list_chunks(chunk: int, usual: int) -> Iterator[int]:
    """Yield chunk sizes that may match the boundaries of usual groups, the nearest first."""
    below = chunk // usual * usual
    chunks = {*range(chunk - _NEAR, chunk + _NEAR + 1), below, below + usual}
    # Chunks whose size divides the usual size match every boundary of usual groups.
    chunks.update(size for size in range(1, usual + 1) if usual % size == 0)
    others = (other for other in chunks if other > 0 and other != chunk)
    # Order by ratio: twice the size counts as equally near as half the size.
    yield from sorted(others, key=lambda other: (max(other / chunk, chunk / other), other))


class ChainFinding(NamedTuple):
    """The finding that most sources form one chain, with a better chunk size if there is one.

    Attributes:
        largest: the group with the chain.
        is_whole: whether all sources were examined, not only the first few.
        field: parameter that sets the chunk size, or None if no better value was found.
        chunk: the better value.
        size: number of sources in the largest group with that value.
    """

    largest: LargestGroup
    is_whole: bool
    field: str | None = None
    chunk: int = 0
    size: int = 0


class Balance(NamedTuple):
    """Distribution of groups over workers.

    Attributes:
        sizes: sources of each group, the largest first.
        loads: sources of each worker.
    """

    sizes: Sequence[int]
    loads: Sequence[int]

    @property
    def ratio(self) -> float:
        """Return the maximum load divided by the mean load; 1 is optimal."""
        return max(self.loads) * len(self.loads) / sum(self.loads)


def pack(sizes: Iterable[int], workers: int) -> Balance:
    """Assign groups to workers: the largest first, each to the worker with the least load.

    The result models workers that take the next group when they become idle. The largest load is at
    most 4/3 of the optimum.

    Args:
        sizes: one or more sizes, each at least 1.
    """
    ordered = sorted(sizes, reverse=True)
    # A list of equal numbers already is a heap.
    loads = [0] * workers
    for size in ordered:
        heapq.heapreplace(loads, loads[0] + size)
    return Balance(ordered, sorted(loads, reverse=True))
