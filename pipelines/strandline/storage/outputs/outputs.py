"""Files that sinks write: complete under their final name or not there at all.

An output is named after its source and token, so a replay overwrites and a folder per source says
what belongs to it. Names and bytes only: which outputs count is the ledger's to know.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_durable, make_folder, sync_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TEMPORARY = ".tmp"
OWNER = ".strandline-owner"  # of the root; no output
FAN_OUT = 3  # hex digits: 4,096 folders, each of some 2,400 sources at ten million
DIGEST_BYTES = 16
FOLDERS_KNOWN = 1000  # to be there for good; one that is forgotten is synced again


class Written(NamedTuple):
    """What was written: bytes, and their blake2b-128."""

    size: int
    digest: bytes


class HashingFile(io.BufferedIOBase):
    """A forward-only file that counts and digests what passes through.

    Args:
        target: takes the bytes.
        place: named where it does not (`VolumeError`), so that this is told from what the code
            that spells a task raises itself.
    """

    def __init__(self, target: BinaryIO, place: object) -> None:
        self._target = target
        self._place = place
        self._state = blake2b(digest_size=DIGEST_BYTES)
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        with naming_volume(self._place):
            self._target.write(view)
        self._state.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def finish(self) -> Written:
        """Size and digest of all that was written."""
        return Written(self._size, self._state.digest())


def name_source_folder(source: bytes) -> str:
    """The folder of a source's outputs, relative to the output root."""
    text = source.hex()
    return f"{text[:FAN_OUT]}/{text}"


class OutputStore(Protocol):
    """A place for outputs. Names are relative: `<fan-out>/<source>/<token><suffix>`."""

    def write(self, source: bytes, name: str, spell: Callable[[BinaryIO], None]) -> Written:
        """Write one output durably under `name` in the source's folder.

        Raises:
            VolumeError: the place can't be written to.
        """

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        """Remove what lies in the source's folder and is not named in `keep`; says how many."""

    def list_names(self) -> Iterator[tuple[str, int]]:
        """Every file but the owner's with its size in bytes, temporary ones too, in no order."""

    def digest(self, name: str) -> bytes:
        """The blake2b-128 of a file's bytes.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def sweep(self, owner: str) -> int:
        """Remove the temporary files of an owner that has no live writer; says how many.

        Args:
            owner: how the names of its writers begin, up to a hyphen; others may be at work.
        """


class LocalOutputs:
    """Outputs in a folder: temporary file, fsync, rename, fsync of the folder."""

    def __init__(self, root: Path, writer: str = "") -> None:
        self.root = root
        self._writer = writer
        self._fans: set[str] = set()
        self._folders: dict[Path, None] = {}

    def write(self, source: bytes, name: str, spell: Callable[[BinaryIO], None]) -> Written:
        folder = self.root / name_source_folder(source)
        with naming_volume(self.root):
            self._make_source_folder(folder)
        with self._temporary() as (path, file):
            hashing = HashingFile(file, self.root)
            spell(cast("BinaryIO", hashing))
            with naming_volume(self.root):
                faults.reach("output.written")
                file.flush()
                os.fsync(file.fileno())
                faults.reach("output.synced")
                path.rename(folder / name)
                sync_folder(folder)
                faults.reach("output.renamed")
            return hashing.finish()

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        folder = self.root / name_source_folder(source)
        if not folder.is_dir():
            return 0
        with naming_volume(self.root):
            others = [entry for entry in folder.iterdir() if entry.name not in keep]
            for entry in others:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if others:
                sync_folder(folder)
            if not keep:
                folder.rmdir()
                self._folders.pop(folder, None)
        return len(others)

    def list_names(self) -> Iterator[tuple[str, int]]:
        for folder, _, files in os.walk(self.root):
            for file in files:
                path = Path(folder, file)
                name = str(path.relative_to(self.root))
                with suppress(FileNotFoundError):  # a live writer may have renamed it
                    size = path.stat().st_size
                    if name != OWNER:
                        yield name, size

    def digest(self, name: str) -> bytes:
        with (self.root / name).open("rb") as file:
            return digest_file(file)

    def sweep(self, owner: str) -> int:
        removed = 0
        with naming_volume(self.root):
            for path in (self.root / TEMPORARY).glob(f"{owner}-*"):
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _make_source_folder(self, folder: Path) -> None:
        """Make the folder, if need be, so that what is renamed into it can't be lost with it.

        That a folder is there says nothing: who has made it may not have synced it yet, or have
        been killed before. So each process does it once for each folder that it relies on.
        """
        if folder in self._folders and folder.is_dir():
            return
        fan = folder.parent
        if not self._fans:
            make_durable(self.root)
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(fan)
        if fan.name not in self._fans:
            sync_folder(self.root)
            self._fans.add(fan.name)
        faults.reach("output.placed")
        self._folders[folder] = None
        if len(self._folders) > FOLDERS_KNOWN:
            del self._folders[next(iter(self._folders))]

    @contextmanager
    def _temporary(self) -> Iterator[tuple[Path, BinaryIO]]:
        folder = self.root / TEMPORARY
        make_folder(folder)
        path = folder / f"{self._writer}-{secrets.token_hex(8)}"
        with naming_volume(self.root):
            file = path.open("wb")
        try:
            with naming_volume(self.root):
                faults.reach("output.opened")
            yield path, file
        except BaseException:
            # A full disk fails again when what is left of the buffer is flushed by closing.
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                path.unlink()
            raise
        file.close()


def digest_file(file: BinaryIO) -> bytes:
    """The blake2b-128 of what is left to read of a file."""
    state = blake2b(digest_size=DIGEST_BYTES)
    while chunk := file.read(1 << 20):
        state.update(chunk)
    return state.digest()
