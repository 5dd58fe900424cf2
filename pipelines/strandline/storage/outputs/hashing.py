"""Computes digests of files while they are written."""

from __future__ import annotations

import io
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from strandline.storage.errors import naming_volume

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DIGEST_BYTES = 16


class Content(NamedTuple):
    """Size in bytes and blake2b-128 digest of written data."""

    size: int
    digest: bytes


class HashingFile(io.BufferedIOBase):
    """A write-only, forward-only file that counts and digests its content.

    Args:
        target: receives the bytes.
        location: path or URL for the `VolumeError` that is raised if the target fails. The error
            class distinguishes these failures from errors of the serializing code.
    """

    def __init__(self, target: BinaryIO, location: object) -> None:
        self._target = target
        self._location = location
        self._state = blake2b(digest_size=DIGEST_BYTES)
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        # Cast to bytes: buffers may have items of any size, but `size` counts bytes.
        view = memoryview(data).cast("B")
        with naming_volume(self._location):
            self._target.write(view)
        self._state.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def finish(self) -> Content:
        """Return the size and the digest of all written bytes."""
        return Content(self._size, self._state.digest())


def digest_file(file: BinaryIO) -> bytes:
    """Return the blake2b-128 digest of a file, from the current position to the end."""
    state = blake2b(digest_size=DIGEST_BYTES)
    while chunk := file.read(1 << 20):
        state.update(chunk)
    return state.digest()
