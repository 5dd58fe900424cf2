"""Table of the items that workers currently process, in a file that outlives the process.

A mapped file survives the process that wrote it, even without a sync. Only a crash of the machine
loses the content, and then no item is to blame. Only one process writes a table. Items are opaque
values of 16 bytes.
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
# The time of the last step follows the rows. The value is shorter than a row, so readers of older
# releases, which expect only rows, ignore the value.
_SIGN = struct.Struct("d")
_SIGN_AT = _ROWS * _ROW.size


class InFlight(NamedTuple):
    """Content of a table: items being processed, and items queued at a worker."""

    processing: frozenset[bytes]
    queued: frozenset[bytes]


class InFlightTable:
    """Items that were sent to workers. The same item may be present several times.

    Args:
        path: path of the file, which is created or overwritten.

    Raises:
        VolumeError: if the file can't be created.
    """

    def __init__(self, path: Path) -> None:
        # Use plain dictionaries: a `Counter` would be the most expensive part of this class.
        self._queued: dict[bytes, int] = defaultdict(int)
        self._processing: dict[bytes, int] = defaultdict(int)
        self._rows: dict[bytes, int] = {}
        self._free = list(range(_ROWS - 1, -1, -1))
        with naming_volume(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                # Allocate the space instead of only extending the file: a full disk must cause an
                # error here, not a signal on access to the mapped memory.
                os.posix_fallocate(handle, 0, _SIGN_AT + _SIGN.size)
                self._map = mmap.mmap(handle, _SIGN_AT + _SIGN.size)
            finally:
                os.close(handle)

    def close(self) -> None:
        """Unmap the file. The file stays."""
        self._map.close()

    def clear(self) -> None:
        """Remove all items."""
        self._map[:_SIGN_AT] = bytes(_SIGN_AT)
        for kept in (self._queued, self._processing, self._rows):
            kept.clear()
        self._free = list(range(_ROWS - 1, -1, -1))

    def show_work(self, worked: float) -> None:
        """Store the time of the process's last step, as a sign that the process is alive.

        Args:
            worked: time on a clock that all processes of this machine share.
        """
        _SIGN.pack_into(self._map, _SIGN_AT, worked)

    def queue(self, items: Iterable[bytes]) -> None:
        """Add items that were sent to a busy worker."""
        for item in items:
            self._queued[item] += 1
            self._show(item)

    def begin(self, items: Iterable[bytes]) -> None:
        """Add items that a worker processes immediately, without queuing."""
        for item in items:
            # Take a fast path for new items, which saves three lookups. Fast runs have many new
            # items.
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
        """Remove processed items that have left their worker."""
        for item in items:
            # Take a fast path for items that are present once, which saves three lookups. In fast
            # runs, most items are present once.
            if self._processing[item] == 1 and item not in self._queued:
                del self._processing[item]
                self._hide(item)
            else:
                self._processing[item] -= 1
                self._show(item)

    def withdraw(self, items: Iterable[bytes]) -> None:
        """Remove items that left their worker's queue unprocessed."""
        for item in items:
            self._queued[item] -= 1
            self._show(item)

    def _show(self, item: bytes) -> None:
        state = _PROCESSING if self._processing[item] > 0 else _QUEUED
        if state == _QUEUED and self._queued[item] <= 0:
            del self._queued[item], self._processing[item]  # created by the lookups above
            self._hide(item)
            return
        row = self._rows.get(item)
        if row is not None:
            self._map[row * _ROW.size + ITEM_BYTES] = state
        elif self._free:  # if the table is full, the item is not recorded
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
    """Return the items that were in flight when the table was last written.

    The result is empty if there is no table.
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
    """Return the time of the process's last step, or None if unknown. See `show_work`."""
    try:
        with path.open("rb") as file:
            file.seek(_SIGN_AT)
            sign = file.read(_SIGN.size)
    except OSError:
        return None
    worked = _SIGN.unpack(sign)[0] if len(sign) == _SIGN.size else 0.0
    return worked or None
