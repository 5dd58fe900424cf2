"""Results of a walk: files with their versions, and reports about skipped files.

The module must not depend on how a folder or store is walked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

LEFT_FILE = "left out: a marker or checksum of Spark, Hive or Hadoop"


class NoteGap(Protocol):
    """Callback for gaps: files and folders that were not visited."""

    def __call__(self, why: str, within: str = "") -> None:
        """See `SourceStage.note_gap`."""


class ListedFile(NamedTuple):
    """A file that a listing found.

    Attributes:
        key: path as written in the pattern; the same on every machine.
        path: path or URL that opens the file on this machine. Paths are absolute.
        size: size in bytes.
        mtime_ns: modification time in nanoseconds since 1970, or 0 if the store has none.
        version: changes when the content changes.
        inode: digest of inode number and ctime, which changes when the file is replaced or
            touched; 0 if unknown.
    """

    key: str
    path: str
    size: int
    mtime_ns: int
    version: str
    inode: int = 0


class WalkReport(NamedTuple):
    """Callbacks for skipped files and gaps of a walk."""

    note_left: Callable[[str], None]
    note_gap: NoteGap


def name_left(folder: str) -> str:
    """Return the name of the counter for a skipped bookkeeping folder."""
    if folder == "_delta_log":
        return "left out: the log of a Delta table; files that it has removed are listed, too"
    return f"left out: a folder {folder}"
