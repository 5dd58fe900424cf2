"""A folder on a machine that may lose power: what no sync has reached is gone then.

Every sync is watched. A folder's names last as they were when that folder was synced last, a file's
bytes as they were when that file was; all the rest may be lost, and here it always is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

Inode = tuple[int, int]


class Disk:
    """Watches what is synced below a folder, which lasts as it is now.

    Args:
        root: the folder.
        monkeypatch: takes the place of `os.fsync`.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._names: dict[Inode, dict[str, Inode]] = {}
        self._bytes: dict[Inode, bytes] = {}
        self._held: list[int] = []  # no number of theirs is given to another file
        for folder, _, files in os.walk(root):
            for path in (folder, *(os.path.join(folder, file) for file in files)):
                self._keep(os.open(path, os.O_RDONLY))
        monkeypatch.setattr(os, "fsync", lambda handle: self._keep(os.dup(handle)))

    def lose_power(self, into: Path) -> Path:
        """What is left afterwards, as a new folder."""
        self._restore(_number(os.stat(self._root)), into)
        return into

    def close(self) -> None:
        """Let all go that was held."""
        for handle in self._held:
            os.close(handle)

    def _keep(self, handle: int) -> None:
        self._held.append(handle)
        found, path = os.fstat(handle), f"/proc/self/fd/{handle}"
        if stat.S_ISDIR(found.st_mode):
            names = os.listdir(path)
            children = {name: os.lstat(f"{path}/{name}") for name in names}
            self._names[_number(found)] = {name: _number(one) for name, one in children.items()}
        else:
            self._bytes[_number(found)] = Path(path).read_bytes()

    def _restore(self, number: Inode, into: Path) -> None:
        into.mkdir()
        for name, child in self._names.get(number, {}).items():
            if child in self._bytes:
                (into / name).write_bytes(self._bytes[child])
            elif child in self._names:
                self._restore(child, into / name)
            # Else the name lasts and leads to nothing that does: an empty file or folder.


def _number(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino
