"""Writes outputs to a file system: each file is complete or absent, even after a crash."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.layout import (
    make_durable,
    make_folder,
    sync_filesystem,
    sync_folder,
)
from strandline.storage.outputs.hashing import Content, HashingFile, digest_file
from strandline.storage.outputs.names import (
    ASIDES,
    NO_OUTPUTS,
    SHARED,
    TEMPORARY,
    name_shared_folder,
    name_source_folder,
)
from strandline.storage.outputs.ports import FOLDERS_KNOWN, GROUP_FILES, SYNCED_WHOLE_FROM


class LocalOutputs:
    """Outputs in a folder. Each write is: temporary file, fsync, rename, fsync of the folder.

    Args:
        writer: prefix of temporary names.
        is_synced_whole: True if a group may be made durable by syncing the whole file system.
        temporary: folder of temporary files, on the same file system.
    """

    def __init__(
        self,
        root: Path,
        writer: str = "",
        *,
        is_synced_whole: bool = False,
        temporary: Path | None = None,
    ) -> None:
        self.root = root
        self.is_synced_whole = is_synced_whole
        self._temporary = temporary or root / TEMPORARY
        self._writer = writer
        self._asides: dict[str, LocalOutputs] = {}
        self._fans: set[str] = set()
        self._folders: dict[Path, None] = {}

    @contextmanager
    def grouped(self) -> Iterator[LocalGroup]:
        group = LocalGroup(self)
        try:
            yield group
            group.commit()
        finally:
            group.discard()

    def open_aside(self, folder: str) -> LocalOutputs:
        if folder not in self._asides:
            self._asides[folder] = LocalOutputs(
                self.root / folder,
                self._writer,
                is_synced_whole=self.is_synced_whole,
                temporary=self._temporary,
            )
        return self._asides[folder]

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        asides = [aside for aside in ASIDES if (self.root / aside).is_dir()]
        removed = sum(self.open_aside(aside).remove_others(source, keep) for aside in asides)
        folder = self.root / name_source_folder(source)
        if not folder.is_dir():
            return removed
        with naming_volume(self.root):
            others = [entry for entry in folder.iterdir() if entry.name not in keep]
            for entry in others:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if others:
                sync_folder(folder)
            if not keep:
                folder.rmdir()
                # Forget the removed folder: if it is created again, the new name needs a sync.
                self._folders.pop(folder, None)
        return removed + len(others)

    def list_names(self) -> Iterator[tuple[str, int]]:
        for folder, _, files in os.walk(self.root):
            for file in files:
                path = Path(folder, file)
                name = str(path.relative_to(self.root))
                with suppress(FileNotFoundError):  # another writer may have renamed the file
                    size = path.stat().st_size
                    if name not in NO_OUTPUTS:
                        yield name, size

    def digest(self, name: str) -> bytes:
        with (self.root / name).open("rb") as file:
            return digest_file(file)

    def has(self, name: str, size: int) -> bool:
        try:
            return (self.root / name).stat().st_size == size
        except FileNotFoundError:
            return False

    def list_shared(self) -> list[str]:
        with naming_volume(self.root):
            return [str(path.relative_to(self.root)) for path in self.root.glob(f"{SHARED}/*/*")]

    def remove_shared(self, name: str) -> None:
        path = self.root / name
        with naming_volume(self.root):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)

    def open_shared(self, name: str) -> BinaryIO:
        with naming_volume(self.root):
            return (self.root / name).open("rb")

    def sweep(self, owner: str) -> int:
        removed = 0
        with naming_volume(self.root):
            for path in self._temporary.glob(f"{owner}-*"):
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def make_folders(self, folders: Iterable[Path]) -> list[Path]:
        """Create folders of sources. Return the folders whose names are not known to be durable.

        The name of an existing folder may not be durable: the creator may not have synced the name
        yet, or may have been killed before the sync. Therefore, each process syncs every folder
        that it uses once.
        """
        new = [path for path in folders if path not in self._folders or not path.is_dir()]
        if new and not self._fans:
            make_folder(self.root)
            make_durable(self.root)
        for fan in {folder.parent for folder in new if folder.parent.name not in self._fans}:
            fan.mkdir(exist_ok=True)
        for folder in new:
            folder.mkdir(parents=True, exist_ok=True)
        return new

    def sync_names(self, folders: Iterable[Path]) -> None:
        """Make the names of source folders durable."""
        fans = dict.fromkeys(folder.parent for folder in folders)
        for fan in fans:
            sync_folder(fan)
        if any(fan.name not in self._fans for fan in fans):
            sync_folder(self.root)

    def note_durable(self, folders: Iterable[Path]) -> None:
        """Remember that the names of these source folders are durable."""
        for folder in folders:
            faults.reach("output.placed")
            self._fans.add(folder.parent.name)
            self._folders[folder] = None
        # Forget the oldest folders first: a dictionary keeps the order of insertion.
        while len(self._folders) > FOLDERS_KNOWN:
            del self._folders[next(iter(self._folders))]

    def open_temporary(self) -> tuple[Path, BinaryIO]:
        """Open a new file with a temporary name of this writer."""
        path = self._temporary / f"{self._writer}-{secrets.token_hex(8)}"
        with naming_volume(self.root):
            try:
                return path, path.open("wb")
            except FileNotFoundError:  # the folder of temporary files does not exist yet
                make_folder(self._temporary)
                return path, path.open("wb")


class _PendingFile(NamedTuple):
    """A written file that does not have its final name and folder yet."""

    path: Path
    file: BinaryIO
    folder: Path
    name: str


class LocalGroup:
    """Outputs in a folder that become durable together before they get their names.

    Each step is done for all files before the next step begins: sync the files, rename the files,
    sync the folders. A crash leaves only complete files, and the group rarely waits for the disk.
    """

    def __init__(self, outputs: LocalOutputs) -> None:
        self._outputs = outputs
        self._pending: list[_PendingFile] = []
        self._filesystem: int | None = None

    def write(self, source: bytes, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        """See `OutputGroup`."""
        return self._write(name_source_folder(source), name, write_content)

    def write_shared(
        self, file: bytes, suffix: str, write_content: Callable[[BinaryIO], None]
    ) -> Content:
        """See `OutputGroup`."""
        name = file.hex() + suffix
        return self._write(name_shared_folder(file), name, write_content)

    def _write(self, folder: str, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        root = self._outputs.root
        if len(self._pending) >= GROUP_FILES:
            self.commit()
        path, file = self._open()
        self._pending.append(_PendingFile(path, file, root / folder, name))
        hashing = HashingFile(file, root)
        try:
            with naming_volume(root):
                faults.reach("output.opened")
            write_content(cast("BinaryIO", hashing))
            with naming_volume(root):
                faults.reach("output.written")
                file.flush()
        except BaseException:
            _discard(self._pending.pop())
            raise
        return hashing.finish()

    def commit(self) -> None:
        """Make all written files durable under their final names."""
        if not self._pending:
            return
        folders = list(dict.fromkeys(pending.folder for pending in self._pending))
        with naming_volume(self._outputs.root):
            new = self._outputs.make_folders(folders)
            self._sync_contents(new)
            self._outputs.note_durable(new)
            for pending in self._pending:
                faults.reach("output.synced")
                pending.path.rename(pending.folder / pending.name)
            self._sync_names(folders)
            for pending in self._pending:
                faults.reach("output.renamed")
                pending.file.close()
            self._pending.clear()
        self.discard()

    def discard(self) -> None:
        """Discard written files that do not have their final names yet."""
        for pending in self._pending:
            _discard(pending)
        self._pending.clear()
        if self._filesystem is not None:
            os.close(self._filesystem)
            self._filesystem = None

    def _open(self) -> tuple[Path, BinaryIO]:
        opened = self._outputs.open_temporary()
        # Open the descriptor before the first write, so that a sync through this descriptor reports
        # the errors of all later writes.
        if self._outputs.is_synced_whole and self._filesystem is None:
            self._filesystem = os.open(opened[0].parent, os.O_RDONLY | os.O_DIRECTORY)
        return opened

    def _sync_contents(self, new: Sequence[Path]) -> None:
        """Make all files and the names of new folders durable."""
        if self._sync_whole():
            return
        self._outputs.sync_names(new)
        for pending in self._pending:
            os.fsync(pending.file.fileno())

    def _sync_names(self, folders: Sequence[Path]) -> None:
        """Make the names in folders durable."""
        if self._sync_whole():
            return
        for folder in folders:
            sync_folder(folder)

    def _sync_whole(self) -> bool:
        """Sync the whole file system if that is faster. Return False if nothing was synced."""
        # A sync of the file system also writes pending data of other processes, so it is slower
        # than separate syncs of a few files.
        if self._filesystem is None or len(self._pending) < SYNCED_WHOLE_FROM:
            return False
        sync_filesystem(self._filesystem)
        return True


def _discard(pending: _PendingFile) -> None:
    # On a full disk, closing fails again because it flushes the rest of the buffer.
    with suppress(OSError):
        pending.file.close()
    with suppress(OSError):
        pending.path.unlink(missing_ok=True)
