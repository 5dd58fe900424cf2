"""Where the answers of a log lie, by the digests of their requests: 16 bytes an answer. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

_KEY_BYTES = 8
_PLACE_BITS = 64
_PLACES = (1 << _PLACE_BITS) - 1


class _Run(NamedTuple):
    """Sorted keys, and the place of each."""

    keys: array[int]
    places: array[int]


class AnswerIndex:
    """Places by digests.

    A key is only the first half of a digest, and a digest may have several places: the caller
    compares what it reads there.

    Args:
        sealed: keys after which their places are sorted and packed.
    """

    def __init__(self, sealed: int = 1 << 16) -> None:
        self._sealed = sealed
        self._recent: dict[int, list[int]] = {}
        self._runs: list[_Run] = []  # each one much shorter than the one before

    def add(self, digest: bytes, place: int) -> None:
        """Note a place, a number below 2**64."""
        self._recent.setdefault(_make_key(digest), []).append(place)
        if len(self._recent) >= self._sealed:
            self._seal()

    def find(self, digest: bytes) -> Iterator[int]:
        """Yield the places that a digest may have, recent ones first."""
        key = _make_key(digest)
        yield from reversed(self._recent.get(key, ()))
        for keys, places in reversed(self._runs):
            at = bisect_left(keys, key)
            while at < len(keys) and keys[at] == key:
                yield places[at]
                at += 1

    def _seal(self) -> None:
        recent = self._recent.items()
        records = [key << _PLACE_BITS | place for key, places in recent for place in places]
        self._recent = {}
        while self._runs and len(self._runs[-1].keys) <= 2 * len(records):
            run = zip(*self._runs.pop(), strict=True)
            records += [key << _PLACE_BITS | place for key, place in run]
        records.sort()
        keys = array("Q", (record >> _PLACE_BITS for record in records))
        self._runs.append(_Run(keys, array("Q", (record & _PLACES for record in records))))


def _make_key(digest: bytes) -> int:
    return int.from_bytes(digest[:_KEY_BYTES], "big")
