"""Small files that are whole or absent: written aside, synced, renamed, and the folder synced.

It knows one file at a time. It does not know what is in it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from strandline.plan.errors import StrandlineError
from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.layout import sync_folder
from strandline.storage.outputs.disk.own_handles import locking

TURNS = 1000  # turns of other processes that are waited for
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW


def write_whole(path: Path, content: bytes | Iterable[bytes], *, steps: str | None = None) -> None:
    """Put `content` at `path`, durably; a reader finds the former file or this one, never a part.

    Writers of the same file take turns. What a killed one left beside it, the next takes over.

    Args:
        path: the file; its folder exists.
        content: all of its bytes, or blocks of them.
        steps: first half of the names of the steps `written`, `synced` and `renamed` that tests
            can make fail; None: no steps of its own.

    Raises:
        VolumeError: it can't be written; the former file stays.
    """
    with writing_whole(path, steps=steps) as handle:
        for block in (content,) if isinstance(content, bytes) else content:
            _write_all(handle, block)


@contextmanager
def writing_whole(path: Path, *, steps: str | None = None) -> Iterator[int]:
    """Provide a descriptor for the content of `path`, which is there, durably, after the block.

    Args:
        path, steps: see `write_whole`.

    Raises:
        VolumeError: it can't be written; the former file stays.
    """
    temporary = _name_temporary(path)
    with naming_volume(path), _hold_alone(temporary) as handle:
        try:
            # First over what was reserved: given back, its room might be another's on a full disk.
            yield handle
            os.ftruncate(handle, os.lseek(handle, 0, os.SEEK_CUR))
            _reach(steps, "written")
            os.fsync(handle)
            _reach(steps, "synced")
            temporary.rename(path)
        except (OSError, StrandlineError):
            with suppress(OSError):
                temporary.unlink()
            raise
        _reach(steps, "renamed")
        sync_folder(path.parent)


def reserve_whole(path: Path, size: int) -> None:
    """Keep room for the next content of `path`, so that a full disk does not refuse it.

    Args:
        size: bytes; of a longer content only the rest needs room.

    Raises:
        VolumeError: there is no such room.
    """
    with naming_volume(path), _hold_alone(_name_temporary(path)) as handle:
        # Room that is only promised may need more when it is written.
        _write_all(handle, bytes(size))
        os.fsync(handle)


def sweep_whole(path: Path) -> None:
    """Remove what a killed writer of `path` has left beside it; a live one is left alone.

    Raises:
        VolumeError: it can't be removed.
    """
    temporary = _name_temporary(path)
    with naming_volume(path):
        try:
            handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            with locking(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if is_at(temporary, handle):
                    temporary.unlink()
        except BlockingIOError:
            return
        finally:
            os.close(handle)


def show_whole(path: Path, content: bytes) -> None:
    """Put `content` at `path` for readers of this machine: never a part, but not durably.

    For what is written every few seconds by one process; a failing disk is no reason to stop then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_bytes(content)
        temporary.rename(path)


@contextmanager
def open_locked(path: Path) -> Iterator[BinaryIO]:
    """Hold a file alone, at its beginning; if it is replaced meanwhile, hold its successor.

    Raises:
        OSError: it can't be opened.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(handle, "r+b") as file, locking(handle, fcntl.LOCK_EX):
            if is_at(path, handle):
                try:
                    yield file
                finally:
                    file.flush()  # while the file is locked
                return


@contextmanager
def _hold_alone(temporary: Path) -> Iterator[int]:
    """Open the temporary file and lock it; it may have content."""
    for _ in range(TURNS):
        handle = os.open(temporary, _FLAGS, 0o644)
        try:
            with locking(handle, fcntl.LOCK_EX):
                if is_at(temporary, handle):
                    yield handle
                    return
        finally:
            os.close(handle)
    raise OSError(errno.EBUSY, "others keep writing it, or its file system can't tell files apart")


def _name_temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def is_at(path: Path, handle: int) -> bool:
    """Return False if the lock's last holder has renamed, replaced, or removed the file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def _reach(steps: str | None, step: str) -> None:
    if steps is not None:
        faults.reach(f"{steps}.{step}")
