"""Records the outputs of a compared engine and their times, in the last stage.

Each process writes its own file, so no process waits for another; a record is one `write`.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from strandline.storage.outputs.names import MANIFEST, OWNER
from strandline_bench.engines.work.works import Items, Work, weigh

_FORMAT = struct.Struct("<dIQQ")
_MASK = (1 << 64) - 1
_SUFFIX = ".records"
_files: dict[tuple[str, int], int] = {}


class Summary(NamedTuple):
    """The number of outputs, and two checksums that do not depend on the order.

    The count reveals a lost or repeated item. The checksums reveal a lost item even if another item
    is repeated, which keeps the count correct.
    """

    items: int = 0
    total: int = 0
    parity: int = 0

    def add(self, other: Summary) -> Summary:
        """Return the combined summary."""
        total = (self.total + other.total) & _MASK
        return Summary(self.items + other.items, total, self.parity ^ other.parity)


class Mark(NamedTuple):
    """A batch of outputs, and its time on the system's monotonic clock."""

    time: float
    summary: Summary


def sum_up(weights: Iterable[int]) -> Summary:
    """Return the summary of items with these weights."""
    count = total = parity = 0
    for weight in weights:
        count += 1
        total += weight
        parity ^= weight
    return Summary(count, total & _MASK, parity)


class Recorded:
    """Wraps the last stage's work function: records each batch and returns nothing.

    Args:
        work: work function of the last stage.
        folder: folder for the records.
    """

    def __init__(self, work: Work, folder: Path) -> None:
        self._given = (work, folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorded, self._given

    def __call__(self, items: Items) -> Items:
        work, folder = self._given
        summary = sum_up(map(weigh, work(items)))
        os.write(_open(folder), _FORMAT.pack(time.monotonic(), *summary))
        return []


def read_marks(folder: Path) -> list[Mark]:
    """Return all records in order of time."""
    marks = []
    for path in folder.glob(f"*{_SUFFIX}"):
        for moment, *summary in _FORMAT.iter_unpack(path.read_bytes()):
            marks.append(Mark(moment, Summary(*summary)))
    return sorted(marks)


def sum_marks(marks: Iterable[Mark]) -> Summary:
    """Return the summary of all outputs."""
    whole = Summary()
    for mark in marks:
        whole = whole.add(mark.summary)
    return whole


def sum_files(folder: Path) -> Summary:
    """Summarize a folder's files by name and content, except for the owner and list files."""
    return sum_up(
        int.from_bytes(
            blake2b(
                path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes(),
                digest_size=8,
            ).digest(),
            "big",
        )
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {MANIFEST, OWNER}
    )


def explain_difference(expected: Summary, found: Summary) -> str:
    """Describe the difference from the expected output briefly.

    Return an empty string if both are equal.
    """
    if found.items != expected.items:
        return f"{found.items:,} of {expected.items:,} came out"
    return "" if found == expected else "not the right ones came out"


def _open(folder: Path) -> int:
    key = (str(folder), os.getpid())
    file = _files.get(key)
    if file is None:
        path = folder / f"{os.getpid()}{_SUFFIX}"
        file = _files[key] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    return file
