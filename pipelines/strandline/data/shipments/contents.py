"""Reads the content of files to push, and compares it with the ledger's digests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from strandline.data.files.opening import open_binary
from strandline.data.shipments.shipment import ShippedFile, UnfitForPushError
from strandline.storage.errors import naming_volume
from strandline.storage.outputs.hashing import DIGEST_BYTES

# Number of bytes per read.
_BLOCK = 1 << 20


class Contents:
    """Reads the files at a location of outputs.

    Args:
        location: folder or URL.
    """

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    def find_path(self, file: ShippedFile) -> Path | None:
        """Return the local path of a file, or None if the file is in a store."""
        return None if "://" in self.location else Path(self.location, file.name)

    def read(self, file: ShippedFile) -> Iterator[bytes]:
        """Yield the bytes of a file in blocks.

        Raises:
            UnfitForPushError: after the last block, if the bytes differ from the ledger's record.
        """
        state, size = blake2b(digest_size=DIGEST_BYTES), 0
        try:
            with open_binary(f"{self.location}/{file.name}") as opened:
                while block := opened.read(_BLOCK):
                    state.update(block)
                    size += len(block)
                    yield block
        except FileNotFoundError:
            raise _explain(file) from None
        if (size, state.digest()) != (file.size, file.digest):
            raise _explain(file)

    def check(self, file: ShippedFile) -> None:
        """Check the bytes of a file against the ledger's record.

        Raises:
            UnfitForPushError: if the bytes differ.
        """
        for _ in self.read(file):
            pass

    @contextmanager
    def fetched(self, file: ShippedFile) -> Iterator[Path]:
        """Yield the path of a verified local file, or the path of a temporary copy."""
        path = self.find_path(file)
        if path is not None:
            self.check(file)
            yield path
            return
        with tempfile.NamedTemporaryFile(prefix="strandline-push-") as copy:
            with naming_volume(copy.name):
                copy.writelines(self.read(file))
                copy.flush()
            yield Path(copy.name)


def _explain(file: ShippedFile) -> UnfitForPushError:
    return UnfitForPushError(
        f"{file.name}: missing or changed since it was written; `verify` lists all such files, and "
        "a run with `--missing` restores them"
    )
