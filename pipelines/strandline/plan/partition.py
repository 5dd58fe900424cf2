"""Which sources must be worked on as one since they share storage, and how groups spread.

Pure: items, and the names of what each of them shares. It knows neither stages nor ledgers.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_NEAR = 64  # whole numbers on either side of a chunk that are tried in its stead


class Joining:
    """The finest groups in which all items that share something are together.

    Two items are in one group where a chain of shares leads from one to the other, whichever stage
    has declared its links. Items are numbered as they are added; a group is known by its least
    item.
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
        """Return the group of an item."""
        parents = self._parents
        while parents[item] != item:
            parents[item] = item = parents[parents[item]]
        return item


def find_chain(shares: Mapping[str, Collection[str]]) -> list[str]:
    """Return why items are together: item, name, item, ... from the least to the farthest.

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


class LargestGroup(NamedTuple):
    """The largest group of some sources.

    Attributes:
        size: its sources.
        total: all of them.
        is_chain: nothing is shared by all of its sources; links from one to the next made it.
    """

    size: int
    total: int
    is_chain: bool

    @property
    def holds_most(self) -> bool:
        """Return whether more than half of all sources are in it."""
        return 2 * self.size > self.total


def find_largest(shares: Sequence[Collection[str]]) -> LargestGroup:
    """Return the largest group of items.

    Args:
        shares: the names of what each item shares.
    """
    groups = _join(shares)
    group, size = max(Counter(groups).items(), key=lambda pair: pair[1], default=(0, 0))
    members = (set(names) for item, names in zip(groups, shares, strict=True) if item == group)
    holders = Counter(name for names in members for name in names)
    is_chain = size > 1 and max(holders.values(), default=0) < size
    return LargestGroup(size, len(shares), is_chain)


def find_usual_size(shares: Sequence[Collection[str]]) -> int:
    """Return how many items most groups have; 1 of none."""
    sizes = Counter(Counter(_join(shares)).values())
    return max(sizes.items(), key=lambda pair: (pair[1], pair[0]), default=(1, 0))[0]


def _join(shares: Iterable[Iterable[str]]) -> list[int]:
    joining = Joining()
    for names in shares:
        joining.add(names)
    return [joining.find(item) for item in range(len(joining))]


def find_chunk(
    chunk: int, usual: int, most: int, measure: Callable[[int], LargestGroup | None]
) -> tuple[int, LargestGroup] | None:
    """Return the nearest chunk that chains nothing large, and its largest group.

    Args:
        chunk: the one that doesn't.
        usual: the usual number of sources in a group of the other side; the borders of those are to
            be met.
        most: sources that a group may have.
        measure: returns the largest group with another chunk; None where that may not be.
    """
    for other in _list_chunks(chunk, usual):
        largest = measure(other)
        if largest is not None and not _is_bad(largest, most):
            return other, largest
    return None


def _is_bad(largest: LargestGroup, most: int) -> bool:
    # A shorter chain is no answer: it would be as long in a longer listing.
    return largest.holds_most or largest.is_chain or largest.size > most


def _list_chunks(chunk: int, usual: int) -> Iterator[int]:
    """Yield what may meet the borders of groups of a usual size, the nearest to a chunk first."""
    below = chunk // usual * usual
    chunks = {*range(chunk - _NEAR, chunk + _NEAR + 1), below, below + usual}
    chunks.update(size for size in range(1, usual + 1) if usual % size == 0)
    others = (other for other in chunks if other > 0 and other != chunk)
    # By ratio: twice as large is as far as half as large.
    yield from sorted(others, key=lambda other: (max(other / chunk, chunk / other), other))


class Chaining(NamedTuple):
    """That most sources are chained into one group, and what would not.

    Attributes:
        largest: that group.
        is_whole: all sources were looked at, and not the first ones alone.
        field: the parameter that sets how large a chunk is; None: no other value was found.
        chunk: a value of it that would not.
        size: sources of the largest group then.
    """

    largest: LargestGroup
    is_whole: bool
    field: str | None = None
    chunk: int = 0
    size: int = 0


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
