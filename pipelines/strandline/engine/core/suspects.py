"""Work that somebody may have died over: held back until nothing else is left, then tried apart.

Pure. A crowd is the number of sources that were with workers when a process died; among the next
ones only half as many are tried at a time, and in the end each alone, so that the one to blame is
found and its neighbours finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from strandline.engine.call.slots import Slot


class Held(NamedTuple):
    """Slots of one batch that wait for their turn; `crowd` is at least 1."""

    stage: int
    batch: list[Slot]
    crowd: int


class Suspects:
    """What is held back."""

    def __init__(self) -> None:
        self._held: dict[int, deque[Held]] = {}  # by crowd, oldest first; none is empty

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, held: Held) -> None:
        """Hold a batch back."""
        self._held.setdefault(held.crowd, deque()).append(held)

    def release(self, failed: Collection[bytes]) -> list[Held]:
        """The next ones to be tried, with nothing else beside them; of the largest crowd first.

        Args:
            failed: sources that need not be tried any more.
        """
        group: list[Held] = []
        while self._held and not group:
            crowd = max(self._held)
            peers = self._held[crowd]
            while peers and len(group) < max(1, crowd // 2):
                one = peers.popleft()
                if one.batch[0].source not in failed:
                    group.append(one)
            if not peers:
                del self._held[crowd]
        return group

    def drop(self, sources: Collection[bytes]) -> None:
        """Hold nothing back of sources."""
        kept = {
            crowd: deque(one for one in peers if one.batch[0].source not in sources)
            for crowd, peers in self._held.items()
        }
        self._held = {crowd: peers for crowd, peers in kept.items() if peers}

    def clear(self) -> None:
        """Drop all."""
        self._held.clear()
