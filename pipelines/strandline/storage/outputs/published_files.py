"""The files that another pipeline has out in a folder, beside whatever else lies there.

A file that lies in an output folder may be of a task in flight, or of a source that is no more. A
file that does not lie there may be on a disk that is away. Only its writer knows; how that is asked
is not known here, nor what a file is read for.
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
    """Return whether a file below the root of outputs is called as outputs are, or describes them.

    A folder that holds other things has these beside its outputs.
    """
    return name in NO_OUTPUTS or _OUTPUT.fullmatch(name) is not None


def may_hold_outputs(folder: str) -> bool:
    """Return whether outputs may lie in a folder, by its name below their root."""
    return _ABOVE.fullmatch(folder) is not None


class OutputFile(NamedTuple):
    """A file that a pipeline has out.

    Attributes:
        name: below the root of its outputs.
        is_whole: it holds nothing that the pipeline does not count any more.
    """

    name: str
    is_whole: bool = True


class PublishedFolder(Protocol):
    """A folder that another pipeline writes to."""

    @property
    def root(self) -> str:
        """Folder or URL of its outputs, without a slash at its end."""

    @property
    def pipeline(self) -> str:
        """The pipeline, for people."""

    @property
    def has_ledger(self) -> bool:
        """Return whether `list_files` can tell."""

    def list_files(self) -> Iterator[OutputFile]:
        """Return what the pipeline has out now.

        Raises:
            OSError: it can't be told.
        """


class PublishedNames:
    """Names of files that should lie in a folder, and which of them do; more than memory holds."""

    def __init__(self, spool: sqlite3.Connection) -> None:
        self._spool = spool
        self.partial: list[str] = []

    def add(self, key: str, *, is_whole: bool) -> None:
        """Note that a file is out."""
        if is_whole:
            self._spool.execute("INSERT OR IGNORE INTO files VALUES (?, 0)", (key,))
        else:
            self.partial.append(key)

    def take(self, key: str, name: str) -> bool:
        """Return whether a file that lies there is out, or is none of those that are written there.

        Args:
            name: below the root of outputs.
        """
        if not is_named_as_output(name):
            return True
        query = "UPDATE files SET is_seen = 1 WHERE key = ?"
        return self._spool.execute(query, (key,)).rowcount > 0

    def list_missing(self) -> Iterator[str]:
        """Yield the files that are out and were not taken."""
        yield from (
            key for (key,) in self._spool.execute("SELECT key FROM files WHERE NOT is_seen")
        )


@contextmanager
def listing_names(
    folder: PublishedFolder, find_key: Callable[[str], str | None]
) -> Iterator[PublishedNames]:
    """Spool what a pipeline has out.

    Args:
        find_key: returns how a file is called here; None: it is not asked for.

    Raises:
        OSError: it can't be told.
    """
    with spooling("files (key PRIMARY KEY, is_seen) WITHOUT ROWID") as spool:
        names = PublishedNames(spool)
        for name, is_whole in folder.list_files():
            key = find_key(name)
            if key is not None:
                names.add(key, is_whole=is_whole)
        yield names
