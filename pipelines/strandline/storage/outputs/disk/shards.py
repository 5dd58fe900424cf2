"""Files of frames: append-only shards, and packs whose frames are sorted by key.

A frame has a title (key, token, and name) and bytes. The module does not decide which frames are
valid; readers skip frames that were not requested.
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

_HEAD = Struct(">16s16sHQ")  # key, token, size of the name, size of the data
_BUFFER = 1 << 18
_SEEK_BUFFER = 1 << 13  # small, because a read of a small frame fills the whole buffer


class DamagedFileError(ValueError):
    """Raised if a file of frames is missing, or its content differs from the written content."""


class Title(NamedTuple):
    """Title of a frame: two digests of 16 bytes, and a short name."""

    key: bytes
    token: bytes
    name: str


class FrameWriter:
    """Appends frames to a file.

    After a failed write, all later writes fail: the end of the file is unknown, and the kernel
    reports a lost page only once.

    Args:
        path: path of the file.
        goes_on: True to append to an existing file, False to overwrite it.

    Attributes:
        size: size of the file in bytes, including all frames.
    """

    def __init__(self, path: Path, *, goes_on: bool = False) -> None:
        make_folder(path.parent)
        self._path = path
        self._file: BinaryIO = path.open("ab" if goes_on else "wb", buffering=_BUFFER)
        self._is_named = False
        self._failure: OSError | None = None
        self.size = self._file.tell()

    def append(self, title: Title, data: bytes) -> int:
        """Append a frame. Return the frame's offset.

        Raises:
            OSError: if the frame can't be written.
        """
        at, name = self.size, title.name.encode()
        with self._failing_for_good():
            self._file.write(_HEAD.pack(title.key, title.token, len(name), len(data)) + name)
            self._file.write(data)
        self.size += measure_head(title) + len(data)
        return at

    def sync(self) -> None:
        """Make the appended frames and the name of the file durable.

        Raises:
            OSError: if the disk is full or fails.
        """
        with self._failing_for_good():
            self._file.flush()
            os.fsync(self._file.fileno())
            if not self._is_named:
                sync_folder(self._path.parent)
                self._is_named = True

    def close(self) -> None:
        """Close the file. The writer can't be used afterwards."""
        with suppress(OSError):  # only bytes that were not synced can fail, and these do not count
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
    """Return the bytes of the frame at an offset of a file.

    Args:
        size: expected number of bytes.

    Raises:
        DamagedFileError: if no frame at the offset has that title and size.
    """
    file.seek(at)
    if _read_head(file) != (title, size):
        raise DamagedFileError(f"{file.name}: {_name(title)} is not at its recorded position")
    return file.read(size)


class PackReader:
    """Reads frames of a pack in file order, and skips frames that are not requested."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = os.fstat(file.fileno()).st_size
        file.seek(0)

    def close(self) -> None:
        """Close the pack."""
        self._file.close()

    def find(self, title: Title, size: int) -> bytes:
        """Return the bytes of a frame, which must come after all frames found before.

        Raises:
            DamagedFileError: if there is no frame with that title and size.
        """
        while (head := _read_head(self._file)) is not None:
            found, length = head
            if head == (title, size):
                return self._file.read(size)
            # Frames are sorted by key, so the frame is missing. Do not read on: the current frame
            # may be the next frame to find.
            if found.key > title.key:
                self._file.seek(-measure_head(found), os.SEEK_CUR)
                break
            # A length that reaches beyond the end of the file is damaged.
            if length > self._end - self._file.tell():
                break
            self._file.seek(length, os.SEEK_CUR)
        raise DamagedFileError(f"{self._file.name}: {_name(title)} is missing")


def open_frames(path: Path, *, is_read_on: bool) -> BinaryIO:
    """Open a file of frames. The caller closes it.

    Args:
        is_read_on: True for sequential reads, False for random access.

    Raises:
        DamagedFileError: if the file is missing.
    """
    try:
        return path.open("rb", buffering=_BUFFER if is_read_on else _SEEK_BUFFER)
    except FileNotFoundError:
        raise DamagedFileError(f"{path}: the file is missing") from None


def digest_bytes(data: bytes) -> bytes:
    """Return the blake2b-128 digest of bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def sync_file(path: Path) -> None:
    """Make the content of a file durable, after another process has written the file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def move_into(path: Path, target: Path) -> None:
    """Move a file or folder to its final name durably. An existing target is replaced."""
    if target.is_dir():
        shutil.rmtree(target)
    path.rename(target)
    sync_folder(target.parent)


def _read_head(file: BinaryIO) -> tuple[Title, int] | None:
    """Return the title and the data size of the next frame, or None at the end of the file."""
    packed = file.read(_HEAD.size)
    if len(packed) < _HEAD.size:
        return None
    key, token, length, size = _HEAD.unpack(packed)
    return Title(key, token, file.read(length).decode("utf-8", "replace")), size


def measure_head(title: Title) -> int:
    """Return the size of a frame's head, which precedes the data, in bytes."""
    return _HEAD.size + len(title.name.encode())


def _name(title: Title) -> str:
    return f"{title.name} of {title.key.hex()}"
