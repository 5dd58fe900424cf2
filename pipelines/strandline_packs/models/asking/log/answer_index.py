"""Index of a log: finds the positions of answers by request digest.

An answer takes 16 bytes of memory. This module does no I/O.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

_KEY_BYTES = 8
_POSITION_BITS = 64
_POSITIONS = (1 << _POSITION_BITS) - 1


class _SortedRun(NamedTuple):
    """Sorted keys, and the position of each."""

    keys: array[int]
    positions: array[int]


class AnswerIndex:
    """Maps request digests to positions.

    Only the first half of a digest serves as the key, and a key may have several positions. The
    caller must compare the full digests in the log.

    Args:
        sealed: number of recent keys that triggers sorting and packing.
    """

    def __init__(self, sealed: int = 1 << 16) -> None:
        self._sealed = sealed
        self._recent: dict[int, list[int]] = {}
        self._runs: list[_SortedRun] = []  # in order of decreasing length

    def add(self, digest: bytes, position: int) -> None:
        """Add a position, an integer below 2**64."""
        self._recent.setdefault(_make_key(digest), []).append(position)
        if len(self._recent) >= self._sealed:
            self._seal()

    def find(self, digest: bytes) -> list[int]:
        """Return the possible positions of a digest, recent positions first."""
        key = _make_key(digest)
        found = self._recent.get(key, [])[::-1]
        for keys, positions in reversed(self._runs):
            at = bisect_left(keys, key)
            while at < len(keys) and keys[at] == key:
                found.append(positions[at])
                at += 1
        return found

    def _seal(self) -> None:
        recent = self._recent.items()
        pairs = ((key, position) for key, positions in recent for position in positions)
        # 128-bit integers of key and position sort by key, then by position.
        records = [key << _POSITION_BITS | position for key, position in pairs]
        self._recent = {}
        # Merge runs of similar length, so that each position is copied a logarithmic number of
        # times.
        while self._runs and len(self._runs[-1].keys) <= 2 * len(records):
            run = zip(*self._runs.pop(), strict=True)
            records += [key << _POSITION_BITS | position for key, position in run]
        records.sort()
        keys = array("Q", (record >> _POSITION_BITS for record in records))
        self._runs.append(_SortedRun(keys, array("Q", (record & _POSITIONS for record in records))))


def _make_key(digest: bytes) -> int:
    return int.from_bytes(digest[:_KEY_BYTES])
