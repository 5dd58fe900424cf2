"""LMDB's errors as sentences: a ledger in use, a volume's refusals, what can't be read.

It must not know what was read or written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb

from strandline.ledger.errors import LedgerError, LedgerInUseError
from strandline.storage.errors import VolumeError

_VOLUME_ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM)
_OPEN_HERE = "already open in this process"  # LMDB's words


def translate(path: Path, error: lmdb.Error) -> Exception:
    """Return an error of ours for one of LMDB's."""
    text = str(error)
    if os.strerror(errno.EAGAIN) in text:
        # LMDB has each process that looks hold the lock of its own pid.
        msg = (
            f"{path}: a process of another container that has the ledger open has the pid of this "
            f"one, {os.getpid()}, and LMDB tells its readers apart by that; look from the "
            "container of that process, or when it has ended"
        )
        return LedgerInUseError(msg)
    if _OPEN_HERE in text:
        msg = f"{path}: another thread of this process has the ledger open; wait for its end"
        return LedgerInUseError(msg)
    is_volume = isinstance(error, (lmdb.DiskError, lmdb.LockError, lmdb.ReadonlyError))
    if is_volume or any(os.strerror(number) in text for number in _VOLUME_ERRORS):
        return VolumeError(f"{path}: the ledger can't be written: {text}")
    return LedgerError(f"{path}: the ledger can't be read: {text}")


def explain_write(path: Path) -> LedgerInUseError:
    """Return the error of a reader without a lock, after a write during its read."""
    msg = (
        f"{path}: the ledger was written while it was read from a volume that is mounted "
        "read-only, where LMDB has no lock; look again, or where it is written"
    )
    return LedgerInUseError(msg)
