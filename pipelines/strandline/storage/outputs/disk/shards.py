"""Files of frames: shards, to which is appended, and packs, which are sealed in the order of keys.

A frame is bytes and what they are called: a key, a token and a name. Which frames count is not
known here; those that are not asked for are passed over.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from strandline.storage.layout import make_folder, sync_folder
from strandline.storage.outputs.hashing import DIGEST_BYTES

_HEAD = Struct(">16s16sHQ")  # key, token, bytes of the name and of the data
_BUFFER = 1 << 18
_SEEK_BUFFER = 1 << 13  # a read of a small frame fills the whole buffer


class DamagedFileError(ValueError):
    """A file of frames does not hold what was written to it."""


class Title(NamedTuple):
    """What the bytes of a frame are called: two digests of 16 bytes, and a short name."""

    key: bytes
    token: bytes
    name: str


class FrameWriter:
    """Appends frames to a file.

    Once something could not be written, nothing can: where the file ends is not known any more,
    and the kernel tells of a page that was lost only once.

    Args:
        path: of the file.
        goes_on: what stands there under its name stays, and would else be overwritten.

    Attributes:
        size: of the file, all frames included.
    """

    def __init__(self, path: Path, *, goes_on: bool = False) -> None:
        make_folder(path.parent)
        self._path = path
        self._file: BinaryIO = path.open("ab" if goes_on else "wb", buffering=_BUFFER)
        self._is_named = False
        self._failure: OSError | None = None
        self.size = self._file.tell()

    def append(self, title: Title, data: bytes) -> int:
        """Append a frame; where it begins.

        Raises:
            OSError: it can't be written.
        """
        at, name = self.size, title.name.encode()
        with self._failing_for_good():
            self._file.write(_HEAD.pack(title.key, title.token, len(name), len(data)) + name)
            self._file.write(data)
        self.size += measure_head(title) + len(data)
        return at

    def sync(self) -> None:
        """Make durable what was appended, and the name of the file.

        Raises:
            OSError: the disk is full or fails.
        """
        with self._failing_for_good():
            self._file.flush()
            os.fsync(self._file.fileno())
            if not self._is_named:
                sync_folder(self._path.parent)
                self._is_named = True

    def close(self) -> None:
        """Close the file; the writer is of no use afterwards."""
        with suppress(OSError):  # bytes that were not synced count nowhere
            self._file.close()

    @contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except OSError as error:
            self._failure = error
            raise


def read_frame(file: BinaryIO, at: int, title: Title, size: int) -> bytes:
    """Return the bytes of the frame that begins at a place of a file.

    Args:
        size: of the bytes, as it is known from elsewhere.

    Raises:
        DamagedFileError: there is no frame of that title and size.
    """
    file.seek(at)
    if _read_head(file) != (title, size):
        raise DamagedFileError(f"{file.name}: {_name(title)} is not where it should be")
    return file.read(size)


class PackReader:
    """Reads the frames of a pack in the order in which they lie, and passes over the others."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = os.fstat(file.fileno()).st_size
        file.seek(0)

    def close(self) -> None:
        """Close the pack."""
        self._file.close()

    def find(self, title: Title, size: int) -> bytes:
        """Return the bytes of that name and size, which come after those that were found before.

        Raises:
            DamagedFileError: they are not there.
        """
        while (head := _read_head(self._file)) is not None:
            found, length = head
            if head == (title, size):
                return self._file.read(size)
            if found.key > title.key:
                self._file.seek(-measure_head(found), os.SEEK_CUR)
                break
            # A length beyond the file's end can't be trusted.
            if length > self._end - self._file.tell():
                break
            self._file.seek(length, os.SEEK_CUR)
        raise DamagedFileError(f"{self._file.name}: {_name(title)} is missing")


def open_frames(path: Path, *, is_read_on: bool) -> BinaryIO:
    """Return a file of frames, to be closed by the caller.

    Args:
        is_read_on: from front to back; else here and there.

    Raises:
        DamagedFileError: there is none.
    """
    try:
        return path.open("rb", buffering=_BUFFER if is_read_on else _SEEK_BUFFER)
    except FileNotFoundError:
        raise DamagedFileError(f"{path}: it is missing") from None


def digest_bytes(data: bytes) -> bytes:
    """Return the blake2b-128 of bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable that another process has written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def move_into(path: Path, target: Path) -> None:
    """Give a file or folder its name, durably; what stands there under it goes."""
    if target.is_dir():
        shutil.rmtree(target)
    path.rename(target)
    sync_folder(target.parent)


def _read_head(file: BinaryIO) -> tuple[Title, int] | None:
    """Title and size of the next frame; None at the end of the file."""
    packed = file.read(_HEAD.size)
    if len(packed) < _HEAD.size:
        return None
    key, token, length, size = _HEAD.unpack(packed)
    return Title(key, token, file.read(length).decode("utf-8", "replace")), size


def measure_head(title: Title) -> int:
    """Return bytes of the head of a frame, which come before its data."""
    return _HEAD.size + len(title.name.encode())


def _name(title: Title) -> str:
    return f"{title.name} of {title.key.hex()}"
