"""Work functions for all compared engines. Each takes a batch of items.

A work function takes a list and returns a list. Workers receive the functions pickled. This module
must not depend on an engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

Items = list[Any]
Work = Callable[[Items], Items]

_MASK = (1 << 64) - 1
_FACTOR = 6_364_136_223_846_793_005
_HEAD = 8  # bytes of an item that identify its source
_FILLS = 4  # number of different blocks; few, so that the expected output can be computed
_TURN = 0x5A


def mix(number: int) -> int:
    """Return a 64-bit number that depends on every bit of the input."""
    return ((number + 1) * _FACTOR) & _MASK


def make_bytes(number: int) -> bytes:
    """Return an item of a hundred bytes."""
    return number.to_bytes(_HEAD, "big") + b"x" * 92


@dataclass(frozen=True, slots=True)
class Stir:
    """Multiplies the first bytes of each item, which is almost no work."""

    salt: int

    def __call__(self, items: Items) -> Items:
        salt = self.salt
        return [
            ((int.from_bytes(item[:_HEAD], "big") * _FACTOR + salt) & _MASK).to_bytes(_HEAD, "big")
            + item[_HEAD:]
            for item in items
        ]


@dataclass(frozen=True, slots=True)
class Nap:
    """Sleeps for each item, so that the result does not depend on the number of cores.

    Attributes:
        seconds: duration for most items.
        long: duration for one in a hundred items, chosen pseudo-randomly by number.
    """

    seconds: float
    long: float | None = None

    def __call__(self, items: Items) -> Items:
        for item in items:
            time.sleep(self.long if self.long is not None and is_long(item) else self.seconds)
        return items


def is_long(number: int) -> bool:
    """Return True for one in a hundred numbers."""
    return mix(number) >> 32 & 0xFFFF < 655


@dataclass(frozen=True, slots=True)
class Spread:
    """Turns each item into many numbers."""

    count: int

    def __call__(self, items: Items) -> Items:
        return [number for _ in items for number in range(self.count)]


@dataclass(frozen=True, slots=True)
class MakeBlock:
    """Turns each number into a block of bytes."""

    size: int

    def __call__(self, items: Items) -> Items:
        return [make_block(number, self.size) for number in items]


def make_block(number: int, size: int) -> Any:  # noqa: ANN401 - an array of numpy's
    """Return a block that starts with its number."""
    block = np.full(size, number % _FILLS, np.uint8)
    block[:_HEAD] = np.frombuffer(number.to_bytes(_HEAD, "big"), np.uint8)
    return block


def change_blocks(items: Items) -> Items:
    """Return a changed copy of each block."""
    return [np.bitwise_xor(block, np.uint8(_TURN)) for block in items]


def keep(items: Items) -> Items:
    """Return the items unchanged."""
    return items


def weigh(item: Any) -> int:  # noqa: ANN401 - a number, bytes, or a block
    """Return an item's contribution to the checksum, which depends on all bytes of a block."""
    if isinstance(item, int):
        return mix(item)
    if isinstance(item, bytes):
        return int.from_bytes(item[:_HEAD], "big")
    return (mix(int.from_bytes(item[:_HEAD].tobytes(), "big")) + crc32(item[_HEAD:])) & _MASK


def weigh_changed(number: int, size: int) -> int:
    """Return the checksum contribution of a number's changed block, without creating the block."""
    head = bytes(byte ^ _TURN for byte in number.to_bytes(_HEAD, "big"))
    return (mix(int.from_bytes(head, "big")) + _weigh_rest(number % _FILLS, size)) & _MASK


@lru_cache
def _weigh_rest(fill: int, size: int) -> int:
    return crc32(bytes([fill ^ _TURN]) * (size - _HEAD))


def chain(works: tuple[Work, ...], items: Items) -> Items:
    """Apply all work functions in sequence, in this process."""
    for work in works:
        if not items:
            break
        items = work(items)
    return items
