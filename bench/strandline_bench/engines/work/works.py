"""What the stages of the compared engines do: the same functions for all, of a batch of items.

A work takes a list and answers with a list. It knows no engine; workers get it pickled.
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
_HEAD = 8  # bytes of an item that name its source
_FILLS = 4  # kinds of blocks; few, so that what is expected can be computed
_TURN = 0x5A


def mix(number: int) -> int:
    """Return a number of 64 bits in which every bit of the given one has a part."""
    return ((number + 1) * _FACTOR) & _MASK


def make_bytes(number: int) -> bytes:
    """Return an item of a hundred bytes."""
    return number.to_bytes(_HEAD, "big") + b"x" * 92


@dataclass(frozen=True, slots=True)
class Stir:
    """Next to nothing: a multiplication over the first bytes of each item."""

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
    """Sleeps for each item, so that what schedules is seen and not how many cores there are.

    Attributes:
        seconds: of most items.
        long: of one in a hundred; which ones looks random and is always the same.
    """

    seconds: float
    long: float | None = None

    def __call__(self, items: Items) -> Items:
        for item in items:
            time.sleep(self.long if self.long is not None and is_long(item) else self.seconds)
        return items


def is_long(number: int) -> bool:
    """Return True for one number in a hundred."""
    return mix(number) >> 32 & 0xFFFF < 655


@dataclass(frozen=True, slots=True)
class Spread:
    """So many numbers for each item."""

    count: int

    def __call__(self, items: Items) -> Items:
        return [number for _ in items for number in range(self.count)]


@dataclass(frozen=True, slots=True)
class MakeBlock:
    """A block of so many bytes for each number."""

    size: int

    def __call__(self, items: Items) -> Items:
        return [make_block(number, self.size) for number in items]


def make_block(number: int, size: int) -> Any:  # noqa: ANN401 - an array of numpy's
    """Return a block that knows its number."""
    block = np.full(size, number % _FILLS, np.uint8)
    block[:_HEAD] = np.frombuffer(number.to_bytes(_HEAD, "big"), np.uint8)
    return block


def change_blocks(items: Items) -> Items:
    """Return a changed copy of each block."""
    return [np.bitwise_xor(block, np.uint8(_TURN)) for block in items]


def keep(items: Items) -> Items:
    """Return the items as they are."""
    return items


def weigh(item: Any) -> int:  # noqa: ANN401 - a number, bytes, or a block
    """Return what an item adds to the checksum; of a block, all bytes have a part."""
    if isinstance(item, int):
        return mix(item)
    if isinstance(item, bytes):
        return int.from_bytes(item[:_HEAD], "big")
    return (mix(int.from_bytes(item[:_HEAD].tobytes(), "big")) + crc32(item[_HEAD:])) & _MASK


def weigh_changed(number: int, size: int) -> int:
    """Return what the changed block of a number adds, without making each of them."""
    head = bytes(byte ^ _TURN for byte in number.to_bytes(_HEAD, "big"))
    return (mix(int.from_bytes(head, "big")) + _weigh_rest(number % _FILLS, size)) & _MASK


@lru_cache
def _weigh_rest(fill: int, size: int) -> int:
    return crc32(bytes([fill ^ _TURN]) * (size - _HEAD))


def chain(works: tuple[Work, ...], items: Items) -> Items:
    """Return all works one after the other, in this process."""
    for work in works:
        if not items:
            break
        items = work(items)
    return items
