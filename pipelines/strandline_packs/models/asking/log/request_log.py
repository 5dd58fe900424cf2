"""The log of answered requests on a disk: files of blocks, in a folder that workers share.

Each process appends to its own file and reads all files. Files of the previous layout, one for each
source, are read in the same way. The module must not depend on rows or servers.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder, sync_folder
from strandline.storage.outputs.disk.own_handles import keep_own
from strandline.storage.outputs.disk.whole_files import is_at, open_locked, write_whole
from strandline_packs.models.asking.log.log_blocks import (
    LogEntry,
    Reader,
    ReadWindow,
    build_blocks,
    find_blocks,
    pack,
    read_all,
)

SUFFIX = ".requests"
ANSWERS = "answers"  # folder of the files that processes append to
_AHEAD = 1 << 14


class LogPart(NamedTuple):
    """A part of a log: a file, or an object in a store.

    Attributes:
        name: name of the part.
        identity: changes if another part with the same name replaces this part.
        size: size in bytes.
    """

    name: str
    identity: int
    size: int


class AppendResult(NamedTuple):
    """Result of appending a block: the part after the append, and the position of the block."""

    part: LogPart
    start: int


class RequestLog(Protocol):
    """The log of a process, which reads the parts of all processes and appends to its own part."""

    threads: int

    def list_parts(self) -> Sequence[LogPart]:
        """Return the parts of all processes."""

    def open_part(self, part: LogPart) -> AbstractContextManager[Reader]:
        """Open a part for reading; a part that is gone has no bytes."""

    def append(self, block: bytes) -> AppendResult:
        """Append a block, and make the block visible to other processes."""

    def sync(self) -> None:
        """Make appended blocks durable."""


class FileLog:
    """A file of a log.

    Args:
        path: path of the file; the first block creates the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0  # end of the bytes that `read` has returned
        self._end = 0  # end of the last complete block, as of the last check
        self._identity = 0
        self._handle: int | None = None

    def read(self) -> Iterator[LogEntry]:
        """Yield the entries appended since the last call, without damaged entries.

        Raises:
            VolumeError: the file can't be read.
        """
        with open_reader(self._path) as (reader, size):
            if self._read > size:  # pruning has replaced the file
                self._read = 0
            for block, entries in read_all(reader, self._read, size):
                yield from entries
                self._read = block.end

    def append(self, block: bytes) -> AppendResult:
        """Append a block without syncing the file; after a failed write, the block is removed.

        Raises:
            VolumeError: the block can't be written.
        """
        with naming_volume(self._path):
            handle = self._lock()
            try:
                start = self._find_end(handle)
                _write_all(handle, block, start)
                self._end = start + len(block)
            except OSError:
                os.ftruncate(handle, self._end)
                self._forget()  # closing also unlocks
                raise
            fcntl.flock(handle, fcntl.LOCK_UN)
        return AppendResult(LogPart(str(self._path), self._identity, self._end), start)

    def _lock(self) -> int:
        """Lock the file that is currently at the path, and return its handle."""
        while True:
            if self._handle is None:
                make_folder(self._path.parent)
                self._handle = keep_own(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644))
                self._close = weakref.finalize(self, os.close, self._handle)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            if is_at(self._path, self._handle):
                return self._handle
            self._forget()  # pruning has replaced the file

    def _find_end(self, handle: int) -> int:
        """Return the position for the next block, and cut off a torn block before it."""
        found = os.fstat(handle)
        if (self._identity, self._end) != (found.st_ino, found.st_size):
            # After a crash or pruning, the file may end in a torn block: find the last complete
            # block.
            reader = ReadWindow(lambda start, size: os.pread(handle, size, start), _AHEAD)
            ends = [block.end for block in find_blocks(reader, 0, found.st_size)]
            self._identity, self._end = found.st_ino, max(ends, default=0)
            os.ftruncate(handle, self._end)
        return self._end

    def sync(self) -> None:
        """Make appended blocks and the file's name durable, and close the file.

        Raises:
            VolumeError: the disk fails.
        """
        if self._handle is None:
            return
        with naming_volume(self._path):
            os.fsync(self._handle)
            # The name of a new file is durable only after a sync of the folder.
            sync_folder(self._path.parent)
        self._forget()

    def _forget(self) -> None:
        self._close()
        self._handle = None


class FolderLog:
    """The files of a log below a folder.

    Args:
        folder: folder of the log; the first block creates the folder.
        writer: name of this process' own file, unique among processes.
    """

    threads = 1  # parallel reads of a disk save no time

    def __init__(self, folder: Path, writer: str) -> None:
        self._folder = folder
        self._own = FileLog(folder / ANSWERS / f"{writer}{SUFFIX}")

    def list_parts(self) -> Sequence[LogPart]:
        """See `RequestLog`.

        Raises:
            VolumeError: the folder can't be read.
        """
        with naming_volume(self._folder):
            return [part for path in list_files(self._folder) for part in _measure(path)]

    @contextmanager
    def open_part(self, part: LogPart) -> Iterator[Reader]:
        """See `RequestLog`.

        Raises:
            VolumeError: the file can't be read.
        """
        with open_reader(Path(part.name)) as (reader, _):
            yield reader

    def append(self, block: bytes) -> AppendResult:
        """See `FileLog.append`."""
        return self._own.append(block)

    def sync(self) -> None:
        """See `FileLog.sync`."""
        self._own.sync()


def list_files(folder: Path) -> list[Path]:
    """Return the files of a log, including files of the previous layout."""
    return sorted(folder.glob(f"*/*{SUFFIX}"))


@contextmanager
def open_reader(path: Path) -> Iterator[tuple[Reader, int]]:
    """Open a file for reading, and yield the reader and the file's size, 0 for a missing file.

    Raises:
        VolumeError: the file can't be read.
    """
    with naming_volume(path), ExitStack() as opened:
        try:
            file = opened.enter_context(path.open("rb", buffering=0))
        except FileNotFoundError:
            yield (lambda _start, _size: b""), 0
            return
        handle = file.fileno()
        reader = ReadWindow(lambda start, size: os.pread(handle, size, start), _AHEAD)
        yield reader, os.fstat(handle).st_size


def prune_file(path: Path, before: float) -> int:
    """Remove entries older than a point in time from a file, and return their number.

    Raises:
        VolumeError: the file can't be read or written.
    """
    # The lock keeps a worker from appending to a file that is about to be replaced.
    with naming_volume(path), open_locked(path):
        with open_reader(path) as (reader, size):
            entries = [entry for _, found in read_all(reader, 0, size) for entry in found]
        left = [pack(entry) for entry in entries if entry.time >= before]
        if not left:
            path.unlink()
        elif len(left) < len(entries):
            write_whole(path, build_blocks(left))
    return len(entries) - len(left)


def _measure(path: Path) -> Iterator[LogPart]:
    try:
        found = path.stat()
    except FileNotFoundError:  # removed by pruning
        return
    yield LogPart(str(path), found.st_ino, found.st_size)


def _write_all(handle: int, content: bytes, start: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(handle, view, start)
        view, start = view[written:], start + written
