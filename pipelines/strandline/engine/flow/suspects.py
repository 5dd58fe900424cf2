"""Suspects: work that may have killed a worker, held back until no other work is left.

The crowd size is the number of sources that workers were processing when a process died. A retry
runs half as many sources at a time, and finally each source alone. This finds the culprit, and the
other sources finish. This module has no side effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from strandline.engine.call.slots import Slot


class SuspectBatch(NamedTuple):
    """Slots of one batch that are held back. `exposed` is the crowd size, at least 1."""

    stage: int
    batch: list[Slot]
    exposed: int


class Suspects:
    """The batches that are held back."""

    def __init__(self) -> None:
        self._held: dict[int, deque[SuspectBatch]] = {}  # by crowd, oldest first, no empty queues

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, held: SuspectBatch) -> None:
        """Hold a batch back."""
        self._held.setdefault(held.exposed, deque()).append(held)

    def release(self, failed: Collection[bytes]) -> list[SuspectBatch]:
        """Return the batches to try next, without other work. The largest crowd comes first.

        Args:
            failed: failed sources, which need no retry.
        """
        group: list[SuspectBatch] = []
        while self._held and not group:
            exposed = max(self._held)
            peers = self._held[exposed]
            while peers and len(group) < max(1, exposed // 2):
                held_batch = peers.popleft()
                if held_batch.batch[0].source not in failed:
                    group.append(held_batch)
            if not peers:
                del self._held[exposed]
        return group

    def drop(self, sources: Collection[bytes]) -> None:
        """Drop the held batches of sources."""
        kept = {
            exposed: deque(peer for peer in peers if peer.batch[0].source not in sources)
            for exposed, peers in self._held.items()
        }
        self._held = {exposed: peers for exposed, peers in kept.items() if peers}

    def change(self, change: Callable[[Slot], Slot]) -> None:
        """Apply a change to every slot that is held back."""
        for peers in self._held.values():
            for position, peer in enumerate(peers):
                peers[position] = peer._replace(batch=list(map(change, peer.batch)))

    def clear(self) -> None:
        """Drop all batches."""
        self._held.clear()
