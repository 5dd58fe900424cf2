"""Digests of files while they are written."""

from __future__ import annotations

import io
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from strandline.storage.errors import naming_volume

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DIGEST_BYTES = 16


class Content(NamedTuple):
    """What was written: bytes, and their blake2b-128."""

    size: int
    digest: bytes


class HashingFile(io.BufferedIOBase):
    """A forward-only file that counts and digests what passes through.

    Args:
        target: takes the bytes.
        location: named where it does not (`VolumeError`), so that this is told from what the code
            that spells a task raises itself.
    """

    def __init__(self, target: BinaryIO, location: object) -> None:
        self._target = target
        self._location = location
        self._state = blake2b(digest_size=DIGEST_BYTES)
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        with naming_volume(self._location):
            self._target.write(view)
        self._state.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def finish(self) -> Content:
        """Return size and digest of all that was written."""
        return Content(self._size, self._state.digest())


def digest_file(file: BinaryIO) -> bytes:
    """Return the blake2b-128 of what is left to read of a file."""
    state = blake2b(digest_size=DIGEST_BYTES)
    while chunk := file.read(1 << 20):
        state.update(chunk)
    return state.digest()
