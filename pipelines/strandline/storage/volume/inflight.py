"""Which items are with workers at this moment, kept where a death of the process leaves it.

A mapped file outlives the process that wrote it, without a sync: it is lost only with the machine,
and then no process has died over an item. One process writes a table. What an item is stays unknown
here: 16 bytes.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from strandline.storage.errors import naming_volume

ITEM_BYTES = 16
_ROW = struct.Struct(f"{ITEM_BYTES}sB")
_ROWS = 16_384
_FREE, _QUEUED, _PROCESSING = 0, 1, 2
# A sign stands after the rows, and is shorter than one, so that a reader that knows rows alone
# passes over it.
_SIGN = struct.Struct("d")
_SIGN_AT = _ROWS * _ROW.size


class InFlight(NamedTuple):
    """What a table says: items being processed, and items that wait with a worker."""

    processing: frozenset[bytes]
    queued: frozenset[bytes]


class InFlightTable:
    """Items with workers; an item may be there several times.

    Args:
        path: of the file, which is made anew.

    Raises:
        VolumeError: it can't be made.
    """

    def __init__(self, path: Path) -> None:
        # A `Counter` has ways of its own that cost more than all else here.
        self._queued: dict[bytes, int] = defaultdict(int)
        self._processing: dict[bytes, int] = defaultdict(int)
        self._rows: dict[bytes, int] = {}
        self._free = list(range(_ROWS - 1, -1, -1))
        with naming_volume(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                # Given room, not only made longer: a full disk must be an error now, not a signal
                # when the map is touched.
                os.posix_fallocate(handle, 0, _SIGN_AT + _SIGN.size)
                self._map = mmap.mmap(handle, _SIGN_AT + _SIGN.size)
            finally:
                os.close(handle)

    def close(self) -> None:
        """Unmap the file; it stays."""
        self._map.close()

    def clear(self) -> None:
        """Take all items out."""
        self._map[:_SIGN_AT] = bytes(_SIGN_AT)
        for kept in (self._queued, self._processing, self._rows):
            kept.clear()
        self._free = list(range(_ROWS - 1, -1, -1))

    def show_work(self, worked: float) -> None:
        """Keep when the process worked last, as a sign of life.

        Args:
            worked: by a clock that all processes of this machine share.
        """
        _SIGN.pack_into(self._map, _SIGN_AT, worked)

    def queue(self, items: Iterable[bytes]) -> None:
        """Add items that were handed to a worker that is busy still."""
        for item in items:
            self._queued[item] += 1
            self._show(item)

    def begin(self, items: Iterable[bytes]) -> None:
        """Add items that are being processed from now on, without a wait."""
        for item in items:
            # New items, of which a quick run has many, take three looks less.
            if item in self._queued or item in self._processing or not self._free:
                self._processing[item] += 1
                self._show(item)
            else:
                self._processing[item] = 1
                self._put(item, _PROCESSING)

    def process(self, items: Iterable[bytes]) -> None:
        """Mark queued items as being processed."""
        for item in items:
            self._queued[item] -= 1
            self._processing[item] += 1
            self._show(item)

    def settle(self, items: Iterable[bytes]) -> None:
        """Remove items that were processed and are with no worker any more."""
        for item in items:
            # An item that is nowhere else, as most are in a quick run, takes three looks less.
            if self._processing[item] == 1 and item not in self._queued:
                del self._processing[item]
                self._hide(item)
            else:
                self._processing[item] -= 1
                self._show(item)

    def withdraw(self, items: Iterable[bytes]) -> None:
        """Remove queued items that are with no worker any more."""
        for item in items:
            self._queued[item] -= 1
            self._show(item)

    def _show(self, item: bytes) -> None:
        state = _PROCESSING if self._processing[item] > 0 else _QUEUED
        if state == _QUEUED and self._queued[item] <= 0:
            del self._queued[item], self._processing[item]  # the two looks have made these entries
            self._hide(item)
            return
        row = self._rows.get(item)
        if row is not None:
            self._map[row * _ROW.size + ITEM_BYTES] = state
        elif self._free:  # more items than anyone hands out go unseen
            self._put(item, state)

    def _hide(self, item: bytes) -> None:
        row = self._rows.pop(item, None)
        if row is not None:
            self._map[row * _ROW.size + ITEM_BYTES] = _FREE
            self._free.append(row)

    def _put(self, item: bytes, state: int) -> None:
        row = self._rows[item] = self._free.pop()
        _ROW.pack_into(self._map, row * _ROW.size, item, state)


def read_inflight(path: Path) -> InFlight:
    """Return what was in flight when the table was written last.

    Nothing where there is no table.
    """
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    states: dict[int, set[bytes]] = {_QUEUED: set(), _PROCESSING: set()}
    for offset in range(0, len(content) - _ROW.size + 1, _ROW.size):
        item, state = _ROW.unpack_from(content, offset)
        if state in states:
            states[state].add(item)
    return InFlight(frozenset(states[_PROCESSING]), frozenset(states[_QUEUED]))


def read_worked(path: Path) -> float | None:
    """Return when the process of a table worked last, by its clock; None where nothing says so."""
    try:
        with path.open("rb") as file:
            file.seek(_SIGN_AT)
            sign = file.read(_SIGN.size)
    except OSError:
        return None
    worked = _SIGN.unpack(sign)[0] if len(sign) == _SIGN.size else 0.0
    return worked or None
