"""Which children of a fan-out go together into a stage that joins groups.

A group is a range of slots of one fan-out: [0, n), [n, 2n), ... It is released when each of its
slots has arrived or will never arrive, so its members do not depend on who was fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.plan.task import Origin

Item = TypeVar("Item")


class Grouping(Generic[Item]):
    """The unfinished groups of one stage.

    Args:
        size: slots of a group; the last one of a fan-out may be smaller.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._missing: dict[tuple[bytes, int], set[int]] = {}
        self._arrived: dict[tuple[bytes, int], dict[int, Item]] = {}

    def __len__(self) -> int:
        return len(self._missing)

    def arrive(self, origin: Origin | None, item: Item) -> list[Item] | None:
        """An item has come: the group it completes, in slot order. Without origin it is its own."""
        if origin is None:
            return [item]
        group = self._group_of(origin)
        self._missing_of(group, origin.of)
        self._arrived.setdefault(group, {})[origin.slot] = item
        return self._fill(group, origin)

    def vanish(self, origin: Origin) -> list[Item] | None:
        """A slot will never arrive (filtered, failed, fanned out anew): the group it completes."""
        group = self._group_of(origin)
        self._missing_of(group, origin.of)
        return self._fill(group, origin)

    def drop(self, is_gone: Callable[[Item], bool]) -> None:
        """Forget groups of which an item is gone; all of them arrive anew."""
        gone = [
            group for group, arrived in self._arrived.items() if any(map(is_gone, arrived.values()))
        ]
        for group in gone:
            del self._arrived[group], self._missing[group]

    def _fill(self, group: tuple[bytes, int], origin: Origin) -> list[Item] | None:
        missing = self._missing[group]
        missing.discard(origin.slot)
        if missing:
            return None
        del self._missing[group]
        arrived = self._arrived.pop(group, {})
        return [item for _, item in sorted(arrived.items(), key=lambda pair: pair[0])] or None

    def _group_of(self, origin: Origin) -> tuple[bytes, int]:
        return origin.parent, origin.slot // self._size

    def _missing_of(self, group: tuple[bytes, int], of: int) -> None:
        if group not in self._missing:
            begin = group[1] * self._size
            self._missing[group] = set(range(begin, min(begin + self._size, of)))
