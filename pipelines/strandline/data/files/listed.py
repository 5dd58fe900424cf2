"""What a walk finds: files with their versions, and what it has passed over.

It must not know how a place is walked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

LEFT_FILE = "left out: a marker or checksum of Spark, Hive or Hadoop"


class NoteGap(Protocol):
    """Is told what was not looked at."""

    def __call__(self, why: str, within: str = "") -> None:
        """See `SourceStage.note_gap`."""


class ListedFile(NamedTuple):
    """One file of a listing.

    Attributes:
        key: its path as the pattern spells it, the same on every machine.
        path: what opens it here: an absolute path or a URL.
        size: bytes.
        mtime_ns: nanoseconds since 1970; 0 where the store tells none.
        version: changes when the content does.
        inode: changes when the file is replaced or touched; 0 if unknown.
    """

    key: str
    path: str
    size: int
    mtime_ns: int
    version: str
    inode: int = 0


class WalkReport(NamedTuple):
    """What a walk is told to."""

    note_left: Callable[[str], None]
    note_gap: NoteGap


def name_left(folder: str) -> str:
    """Return the counter of a folder that was left beside data."""
    if folder == "_delta_log":
        return "left out: the log of a Delta table; files that it has removed are listed, too"
    return f"left out: a folder {folder}"
