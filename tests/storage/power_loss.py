"""Simulates a machine that loses power: all unsynced data of a folder is lost.

Every sync is recorded. A folder keeps the names it had at its last sync, and a file keeps the bytes
it had at its last sync. Everything else may be lost on a real machine, and is always lost here. If
only the name of a file is kept, the file is empty.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from strandline.storage.outputs.disk import local_outputs

Inode = tuple[int, int]


class Disk:
    """Records syncs below a folder. The folder's initial content counts as synced.

    Args:
        root: folder to watch.
        monkeypatch: fixture that replaces `os.fsync`, and the `syncfs` of outputs.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._names: dict[Inode, dict[str, Inode]] = {}
        self._files: set[Inode] = set()
        self._bytes: dict[Inode, bytes] = {}
        self._held: list[int] = []  # keeps inode numbers from being reused
        self._keep_all()
        monkeypatch.setattr(os, "fsync", lambda handle: self._keep(os.dup(handle)))
        monkeypatch.setattr(local_outputs, "sync_filesystem", lambda _: self._keep_all())

    def lose_power(self, into: Path) -> Path:
        """Write the content that survives a power loss to a new folder, and return the folder."""
        self._restore(_number(os.stat(self._root)), into)
        return into

    def close(self) -> None:
        """Close all files that were kept open."""
        for handle in self._held:
            os.close(handle)

    def _keep_all(self) -> None:
        for folder, _, files in os.walk(self._root):
            for path in (folder, *(os.path.join(folder, file) for file in files)):
                with contextlib.suppress(FileNotFoundError):  # a concurrent writer removed the file
                    self._keep(os.open(path, os.O_RDONLY))

    def _keep(self, handle: int) -> None:
        self._held.append(handle)
        found, path = os.fstat(handle), f"/proc/self/fd/{handle}"
        if stat.S_ISDIR(found.st_mode):
            children = {}
            for name in os.listdir(path):
                with contextlib.suppress(FileNotFoundError):  # a concurrent writer removed the file
                    children[name] = os.lstat(f"{path}/{name}")
            self._names[_number(found)] = {name: _number(info) for name, info in children.items()}
            files = [info for info in children.values() if stat.S_ISREG(info.st_mode)]
            self._files.update(map(_number, files))
        else:
            self._bytes[_number(found)] = Path(path).read_bytes()

    def _restore(self, number: Inode, into: Path) -> None:
        into.mkdir()
        for name, child in self._names.get(number, {}).items():
            if child in self._files:
                (into / name).write_bytes(self._bytes.get(child, b""))
            elif child in self._names:
                self._restore(child, into / name)
            # Otherwise the name survives without durable content: an empty folder.


def _number(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino
