"""Finds the files that another pipeline has published in a folder, among all other files there.

A file in an output folder may belong to a task in flight or to a removed source. A published file
may be missing because a disk is not mounted. Only the pipeline that writes the folder can
distinguish these cases. The module must not depend on how that pipeline is queried, or on how the
files are used.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from strandline.storage.outputs.disk.temporary import spooling
from strandline.storage.outputs.names import ASIDES, FAN_OUT, NO_OUTPUTS, SHARED

_ASIDE = f"({'|'.join(ASIDES)})/.+"
_FAN = f"[0-9a-f]{{{FAN_OUT}}}"
_OUTPUT = re.compile(f"({_FAN}/[0-9a-f]{{32}}|{SHARED}/{_FAN})/[^/]+|{_ASIDE}")
_ABOVE = re.compile(f"|{_FAN}(/[0-9a-f]{{32}})?|{SHARED}(/{_FAN})?")


def is_named_as_output(name: str) -> bool:
    """Return True if a file name looks like an output, or like a file that describes outputs.

    The name is relative to the output root.
    """
    return name in NO_OUTPUTS or _OUTPUT.fullmatch(name) is not None


def may_hold_outputs(folder: str) -> bool:
    """Return True if a folder, relative to the output root, may contain outputs."""
    return _ABOVE.fullmatch(folder) is not None


class OutputFile(NamedTuple):
    """A published file of a pipeline.

    Attributes:
        name: name relative to the root of the pipeline's outputs.
        is_whole: True if all rows of the file are still valid.
    """

    name: str
    is_whole: bool = True


class PublishedFolder(Protocol):
    """A folder that another pipeline writes to."""

    @property
    def root(self) -> str:
        """Folder or URL of the pipeline's outputs, without a trailing slash."""

    @property
    def pipeline(self) -> str:
        """Name of the pipeline, for messages."""

    @property
    def has_ledger(self) -> bool:
        """Return whether a ledger exists, so that `list_files` can list published files."""

    def list_files(self) -> Iterator[OutputFile]:
        """List the currently published files.

        Raises:
            OSError: if the files can't be listed.
        """


class PublishedNames:
    """Published files of a folder, marked when found. The set may be larger than memory."""

    def __init__(self, spool: sqlite3.Connection) -> None:
        self._spool = spool
        self.partial: list[str] = []

    def add(self, key: str, *, is_whole: bool) -> None:
        """Record a published file."""
        if is_whole:
            self._spool.execute("INSERT OR IGNORE INTO files VALUES (?, 0)", (key,))
        else:
            self.partial.append(key)

    def take(self, key: str, name: str) -> bool:
        """Mark a file that was found. Return False for an output that is not published.

        Return True for files whose names do not look like outputs.

        Args:
            name: name relative to the root of the outputs.
        """
        if not is_named_as_output(name):
            return True
        query = "UPDATE files SET is_seen = 1 WHERE key = ?"
        return self._spool.execute(query, (key,)).rowcount > 0

    def list_missing(self) -> Iterator[str]:
        """Yield the published files that were not found."""
        yield from (
            key for (key,) in self._spool.execute("SELECT key FROM files WHERE NOT is_seen")
        )


@contextmanager
def listing_names(
    folder: PublishedFolder, find_key: Callable[[str], str | None]
) -> Iterator[PublishedNames]:
    """Store the published files of a pipeline in a temporary database.

    Args:
        find_key: returns the key of a file, or None to skip the file.

    Raises:
        OSError: if the files can't be listed.
    """
    with spooling("files (key PRIMARY KEY, is_seen) WITHOUT ROWID") as spool:
        names = PublishedNames(spool)
        for name, is_whole in folder.list_files():
            key = find_key(name)
            if key is not None:
                names.add(key, is_whole=is_whole)
        yield names
