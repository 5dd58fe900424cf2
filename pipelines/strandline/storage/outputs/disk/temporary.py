"""Temporary folders that are removed with their process, or by the next process after a kill.

A process holds a lock on its folder for as long as the process lives. The next process therefore
recognizes leftover folders without a process lookup, which would fail across containers. The module
must not depend on the purpose of a folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from strandline.storage.outputs.disk.own_handles import keep_own, locking


@contextmanager
def owned_folder(kind: str) -> Iterator[Path]:
    """Create a folder that is removed when the block ends. Also remove killed processes' leftovers.

    Args:
        kind: a word shared by all processes that may remove each other's folders.
    """
    prefix = f"strandline-{kind}-"
    sweep_folders(Path(tempfile.gettempdir()), prefix)
    path, handle = _make(prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def sweep_folders(root: Path, prefix: str) -> None:
    """Remove folders that no process holds. Keep other users' folders, and ignore failures."""
    for path in root.glob(f"{prefix}*"):
        try:
            if path.lstat().st_uid == os.getuid():
                sweep_folder(path)
        except OSError:  # another process has removed the folder
            continue


def sweep_folder(path: Path) -> None:
    """Remove a folder unless a process holds it.

    Raises:
        OSError: if the folder is already gone, or is not a folder.
    """
    # Do not follow links: all users can write to the parent folder, and a link could lead to a
    # folder of another user.
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with locking(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(handle)


def hold_folder(path: Path) -> int | None:
    """Hold a folder until the handle is closed. Return None if the folder was already swept.

    Several processes may hold a folder at the same time.
    """
    try:
        handle = keep_own(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Between the open and the lock, a sweeper may have removed the folder.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):  # a sweeper holds or has removed the folder
        pass
    os.close(handle)
    return None


@contextmanager
def spooling(table: str) -> Iterator[sqlite3.Connection]:
    """Open a temporary database for data that is too large for memory.

    Args:
        table: name and columns of the first table.
    """
    with owned_folder("spool") as folder:
        path = folder / "spool.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as spool:
            # The data does not outlive the process, so crash safety would only cost time.
            spool.execute("PRAGMA journal_mode = OFF")
            spool.execute("PRAGMA synchronous = OFF")
            spool.execute(f"CREATE TABLE {table}")
            yield spool


def _make(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        # If a sweeper removes the new folder before the lock is taken, create another folder.
        handle = hold_folder(path)
        if handle is not None:
            return path, handle
