"""Work that somebody may have died over: held back until nothing else is left, then tried apart.

Pure. A crowd is the number of sources that were with workers when a process died; among the next
ones only half as many are tried at a time, and in the end each alone, so that the one to blame is
found and its neighbours finish.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from strandline.engine.slots import Slot


class Held(NamedTuple):
    """Slots of one batch that wait for their turn; `crowd` is at least 1."""

    stage: int
    batch: list[Slot]
    crowd: int


class Suspects:
    """What is held back."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, held: Held) -> None:
        """Hold a batch back."""
        self._held.append(held)

    def release(self, failed: Collection[bytes]) -> list[Held]:
        """The next ones to be tried, with nothing else beside them; of the largest crowd first.

        Args:
            failed: sources that need not be tried any more.
        """
        self._held = [one for one in self._held if one.batch[0].source not in failed]
        if not self._held:
            return []
        crowd = max(one.crowd for one in self._held)
        peers = [one for one in self._held if one.crowd == crowd]
        group = peers[: max(1, crowd // 2)]
        self._held = [one for one in self._held if not any(one is other for other in group)]
        return group

    def drop(self, source: bytes) -> None:
        """Hold nothing back of a source."""
        self._held = [one for one in self._held if one.batch[0].source != source]

    def clear(self) -> None:
        """Drop all."""
        self._held.clear()
