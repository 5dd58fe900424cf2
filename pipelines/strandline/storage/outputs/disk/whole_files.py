"""Writes small files that are complete or absent: temporary file, sync, rename, folder sync.

Each call handles one file. The module must not depend on the content.
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

TURNS = 1000  # maximum number of waits for other writers
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW


def write_whole(path: Path, content: bytes | Iterable[bytes], *, steps: str | None = None) -> None:
    """Write `content` to `path` durably. Readers find the previous file or the new file.

    Writers of the same file take turns. A writer reuses the temporary file of a killed writer.

    Args:
        path: the file; its folder exists.
        content: all bytes of the file, or blocks of bytes.
        steps: prefix of the fault injection steps `written`, `synced`, and `renamed`, or None for
            no steps.

    Raises:
        VolumeError: if the file can't be written; the previous file stays.
    """
    with writing_whole(path, steps=steps) as handle:
        for block in (content,) if isinstance(content, bytes) else content:
            _write_all(handle, block)


@contextmanager
def writing_whole(path: Path, *, steps: str | None = None) -> Iterator[int]:
    """Yield a descriptor for new content of `path`. When the block ends, the file is replaced.

    Args:
        path, steps: see `write_whole`.

    Raises:
        VolumeError: if the file can't be written; the previous file stays.
    """
    temporary = _name_temporary(path)
    with naming_volume(path), _hold_alone(temporary) as handle:
        try:
            # Overwrite the reserved space before truncating the file: on a full disk, another
            # process could take released space.
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
    """Reserve disk space for the next content of `path`, so a full disk can't prevent the write.

    Args:
        size: bytes to reserve. If the content is longer, only the excess needs free space.

    Raises:
        VolumeError: if there is not enough space.
    """
    with naming_volume(path), _hold_alone(_name_temporary(path)) as handle:
        # Write real bytes: space that is only allocated may need more space once it is written.
        _write_all(handle, bytes(size))
        os.fsync(handle)


def sweep_whole(path: Path) -> None:
    """Remove the temporary file of a killed writer of `path`. Files of live writers stay.

    Raises:
        VolumeError: if the file can't be removed.
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
    """Write `content` to `path` atomically, but not durably, and ignore errors.

    Use this function for files that one process writes every few seconds for readers on this
    machine. A failing disk should not stop the process.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_bytes(content)
        temporary.rename(path)


@contextmanager
def open_locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file and lock it exclusively. If the file is replaced meanwhile, lock the new file.

    Raises:
        OSError: if the file can't be opened.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(handle, "r+b") as file, locking(handle, fcntl.LOCK_EX):
            if is_at(path, handle):
                try:
                    yield file
                finally:
                    file.flush()  # before the lock is released
                return


@contextmanager
def _hold_alone(temporary: Path) -> Iterator[int]:
    """Open and lock the temporary file, which may already have content."""
    for _ in range(TURNS):
        handle = os.open(temporary, _FLAGS, 0o644)
        try:
            with locking(handle, fcntl.LOCK_EX):
                if is_at(temporary, handle):
                    yield handle
                    return
        finally:
            os.close(handle)
    raise OSError(
        errno.EBUSY, "other processes keep replacing it, or its file system can't distinguish files"
    )


def _name_temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def is_at(path: Path, handle: int) -> bool:
    """Return False if the previous lock holder has renamed, replaced, or removed the file."""
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
