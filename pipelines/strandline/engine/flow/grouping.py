"""Collects the children of a fan-out for a stage that joins groups.

A group is a range of slots of one fan-out: [0, n), [n, 2n), ... A group is released when each of
its slots has arrived or will never arrive, so its members do not depend on the speed of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.plan.task import Origin

Item = TypeVar("Item")
Group = tuple[bytes, int]


class Grouping(Generic[Item]):
    """The incomplete groups of one stage.

    Args:
        size: number of slots in a group; the last group of a fan-out may be smaller.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._missing: dict[Group, set[int]] = {}
        self._arrived: dict[Group, dict[int, Item]] = {}
        self._owned: dict[bytes, set[Group]] = {}

    def __len__(self) -> int:
        return len(self._missing)

    def arrive(self, origin: Origin | None, item: Item, owner: bytes) -> list[Item] | None:
        """Add an item.

        Return the group that the item completes, in slot order, if it completes one.

        Args:
            owner: the source of the fan-out; see `drop`.
        """
        if origin is None:
            return [item]
        group = self._group_of(origin)
        self._missing_of(group, origin.of, owner)
        self._arrived.setdefault(group, {})[origin.slot] = item
        return self._fill(group, origin, owner)

    def vanish(self, origin: Origin, owner: bytes) -> list[Item] | None:
        """Record that a slot will never arrive. Return the group that this completes, if any."""
        group = self._group_of(origin)
        self._missing_of(group, origin.of, owner)
        return self._fill(group, origin, owner)

    def change(self, change: Callable[[Item], Item]) -> None:
        """Apply a change to every item of the incomplete groups."""
        for arrived in self._arrived.values():
            for slot, item in arrived.items():
                arrived[slot] = change(item)

    def drop(self, owner: bytes) -> None:
        """Forget an owner's groups. The caller ensures that all items or no items arrive again."""
        for group in self._owned.pop(owner, ()):
            del self._missing[group]
            self._arrived.pop(group, None)

    def _fill(self, group: Group, origin: Origin, owner: bytes) -> list[Item] | None:
        missing = self._missing[group]
        missing.discard(origin.slot)
        if missing:
            return None
        del self._missing[group]
        owned = self._owned[owner]
        owned.discard(group)
        if not owned:
            del self._owned[owner]
        arrived = self._arrived.pop(group, {})
        return [item for _, item in sorted(arrived.items(), key=lambda pair: pair[0])] or None

    def _group_of(self, origin: Origin) -> Group:
        return origin.parent, origin.slot // self._size

    def _missing_of(self, group: Group, of: int, owner: bytes) -> None:
        if group not in self._missing:
            self._owned.setdefault(owner, set()).add(group)
            begin = group[1] * self._size
            self._missing[group] = set(range(begin, min(begin + self._size, of)))
