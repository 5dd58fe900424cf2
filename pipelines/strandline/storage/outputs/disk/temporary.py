"""Temporary folders that are gone with their process, if not at once then with the next one.

Their owner holds a lock on the folder itself for as long as it lives, so the next that comes knows
what is left over without asking for processes, which can't be seen from another container. What a
folder is for is not known here.
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
    """Make a folder that goes in the end; those of its kind that killed processes left go now.

    Args:
        kind: a word, the same for all that may sweep each other's.
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
    """Remove folders that no process holds; another user's, or what can't be removed, stays."""
    for path in root.glob(f"{prefix}*"):
        try:
            if path.lstat().st_uid == os.getuid():
                sweep_folder(path)
        except OSError:  # another process was quicker
            continue


def sweep_folder(path: Path) -> None:
    """Remove a folder unless a process holds it.

    Raises:
        OSError: it is gone already, or no folder.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with locking(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(handle)


def hold_folder(path: Path) -> int | None:
    """Hold a folder until the handle is closed; None where it was swept before that was possible.

    Several may hold it at a time.
    """
    try:
        handle = keep_own(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):  # its sweeper has it, or has removed it
        pass
    os.close(handle)
    return None


@contextmanager
def spooling(table: str) -> Iterator[sqlite3.Connection]:
    """Open a database for what is too much for memory, and needed by this process alone.

    Args:
        table: name and columns of its first table.
    """
    with owned_folder("spool") as folder:
        path = folder / "spool.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as spool:
            spool.execute("PRAGMA journal_mode = OFF")
            spool.execute("PRAGMA synchronous = OFF")
            spool.execute(f"CREATE TABLE {table}")
            yield spool


def _make(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        handle = hold_folder(path)
        if handle is not None:
            return path, handle
