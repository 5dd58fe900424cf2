"""Places of outputs: what a store of them does, on a disk or behind a URL.

Whoever writes knows these ports, and not where bytes go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from strandline.storage.outputs.hashing import Content

GROUP_FILES = 128  # open at a time, of one group
SYNCED_WHOLE_FROM = 8  # files
FOLDERS_KNOWN = 1000  # to be there for good; one that is forgotten is synced again


@dataclass(frozen=True, slots=True)
class OutputLocation:
    """Where the sinks of an attempt write, and by which account.

    Attributes:
        url: folder or URL of the outputs.
        writer: how temporary names of the attempt's writers begin.
        writers_lock: held shared by every writer on this host; None: no lock.
        is_on_driver: it is a folder of the driver's node, so sinks must run there.
    """

    url: str
    writer: str = "0000"
    writers_lock: Path | None = None
    is_on_driver: bool = False


class OutputGroup(Protocol):
    """Outputs that become durable together."""

    def write(self, source: bytes, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        """Write one output, which is to have `name` in the source's folder.

        What `write_content` raises is passed on, and takes none of the others along.

        Raises:
            VolumeError: the place can't be written to.
        """

    def write_shared(
        self, file: bytes, suffix: str, write_content: Callable[[BinaryIO], None]
    ) -> Content:
        """Write one file that several sources share, under its name; see `write`."""


class OutputStore(Protocol):
    """A place for outputs.

    Names are relative: `<fan-out>/<source>/<token><suffix>`, or that of `name_shared`.
    """

    def grouped(self) -> AbstractContextManager[OutputGroup]:
        """Write outputs that are durable when the block ends; one that raises leaves none.

        Raises:
            VolumeError: the place can't be written to.
        """

    def open_aside(self, folder: str) -> OutputStore:
        """Return the place in a folder below this one, one of `ASIDES`."""

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        """Remove what lies in the source's folders and is not named in `keep`; says how many."""

    def list_names(self) -> Iterator[tuple[str, int]]:
        """Return every file but the owner's and the card with its size, temporary ones too."""

    def digest(self, name: str) -> bytes:
        """Return the blake2b-128 of a file's bytes.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def has(self, name: str, size: int) -> bool:
        """Return whether a file is there, with so many bytes."""

    def list_shared(self) -> list[str]:
        """Return the names of all shared files."""

    def remove_shared(self, name: str) -> None:
        """Remove a shared file, if it is there.

        Raises:
            VolumeError: it can't be removed.
        """

    def open_shared(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a shared file to be read, here and there.

        Raises:
            VolumeError: it can't be read.
        """

    def sweep(self, owner: str) -> int:
        """Remove the temporary files of an owner that has no live writer; says how many.

        Args:
            owner: how the names of its writers begin, up to a hyphen; others may be at work.
        """
