"""Ports for outputs: the operations of an output store, on a disk or behind a URL.

Writers use these ports, and do not depend on where the bytes are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from strandline.storage.outputs.hashing import Content

GROUP_FILES = 128  # maximum number of open files in a group
SYNCED_WHOLE_FROM = 8  # number of files from which a sync of the whole file system is faster
FOLDERS_KNOWN = 1000  # number of folders remembered as durable; forgotten folders are synced again


@dataclass(frozen=True, slots=True)
class OutputLocation:
    """The location where the sinks of an attempt write.

    Attributes:
        url: folder or URL of the outputs.
        writer: prefix of temporary names of the attempt's writers.
        writers_lock: lock file that every writer on this host holds shared, or None.
        is_on_driver: True if the folder is on the driver's node, so that sinks must run there.
    """

    url: str
    writer: str = "0000"
    writers_lock: Path | None = None
    is_on_driver: bool = False


class OutputGroup(Protocol):
    """Outputs that become durable together."""

    def write(self, source: bytes, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        """Write one output with the final name `name` in the source's folder.

        Errors of `write_content` are raised, and do not affect other outputs of the group.

        Raises:
            VolumeError: if the location can't be written.
        """

    def write_shared(
        self, file: bytes, suffix: str, write_content: Callable[[BinaryIO], None]
    ) -> Content:
        """Write a file with rows of several sources; see `write`."""


class OutputStore(Protocol):
    """A location for outputs.

    Names are relative: `<fan-out>/<source>/<token><suffix>`, or as returned by `name_shared`.
    """

    def grouped(self) -> AbstractContextManager[OutputGroup]:
        """Write outputs that become durable when the block ends.

        An exception in the block discards the outputs.

        Raises:
            VolumeError: if the location can't be written.
        """

    def open_aside(self, folder: str) -> OutputStore:
        """Return the output store of a subfolder from `ASIDES`."""

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        """Remove all files in the source's folders except `keep`. Return the number removed."""

    def list_names(self) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of all files except `NO_OUTPUTS`, including temporary files."""

    def digest(self, name: str) -> bytes:
        """Return the blake2b-128 digest of a file.

        Raises:
            FileNotFoundError: if the file is missing.
        """

    def has(self, name: str, size: int) -> bool:
        """Return True if a file with this size exists."""

    def list_shared(self) -> list[str]:
        """Return the names of all shared files."""

    def remove_shared(self, name: str) -> None:
        """Remove a shared file if it exists.

        Raises:
            VolumeError: if the file can't be removed.
        """

    def open_shared(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a shared file for random access.

        Raises:
            VolumeError: if the file can't be read.
        """

    def sweep(self, owner: str) -> int:
        """Remove temporary files of an owner without live writers. Return the number of files.

        Args:
            owner: common prefix of the owner's writer names, up to a hyphen. Temporary files of
                other
                owners are kept, because those owners may be active.
        """
