"""LMDB environment of a ledger: transactions, map size, and readable errors.

LMDB moves the map when its size changes, which would break open transactions of this process. A
thread that changes the size therefore waits until no transaction is open, and new transactions wait
for that thread. The module must not depend on the data.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from strandline.ledger.errors import LedgerError, LedgerInUseError
from strandline.ledger.store.environment.inspection import watching_pages
from strandline.storage.errors import VolumeError

_VOLUME_ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM)
# Only writing a copy can cause these errors, because LMDB reads the ledger through its map.
_TARGET_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EPIPE, errno.EFBIG)
_OPEN_HERE = "already open in this process"  # text of an LMDB error


class LedgerEnvironment:
    """An open LMDB environment of a ledger.

    Args:
        path: folder of the environment.
        options: options of `lmdb.open`.

    Attributes:
        turn: lock to hold while writing or resizing the map.
    """

    def __init__(self, path: Path, **options: Any) -> None:  # noqa: ANN401 - lmdb's
        self._path = path
        self.turn = threading.Lock()
        self._change = threading.Condition()
        self._is_moving = False
        self._transactions = 0
        with self.translating():
            self.lmdb = lmdb.open(str(path), **options)

    @contextmanager
    def reading(self, db: Any = None) -> Iterator[lmdb.Transaction]:  # noqa: ANN401 - lmdb's
        """Read in a transaction. A thread may have only one transaction at a time."""
        txn = self._begin(db)
        try:
            with txn:
                yield txn
        finally:
            self._leave()

    @contextmanager
    def writing(self) -> Iterator[lmdb.Transaction]:
        """Write in a transaction. The caller holds `turn`.

        Raises:
            lmdb.MapFullError, lmdb.MapResizedError: if the map needs another size.
        """
        self._enter()
        try:
            with self.lmdb.begin(write=True) as txn:
                yield txn
        finally:
            self._leave()

    def copy(self, handle: int) -> None:
        """Write a consistent, compact copy to a file descriptor. Writers are not blocked.

        Raises:
            VolumeError: if the copy can't be written.
            LedgerError: if the data can't be read.
        """
        with watching_pages(self._path):
            while True:
                self._enter()
                try:
                    self.lmdb.copyfd(handle, compact=True)
                except lmdb.MapResizedError:  # a writer has enlarged the map; nothing is copied yet
                    pass
                except lmdb.Error as error:
                    raise _explain_copy(self._path, error) from error
                else:
                    return
                finally:
                    self._leave()
                self.follow_map()

    def double_map(self) -> None:
        """Double the map as soon as no transaction is open."""
        self._move(self.lmdb.info()["map_size"] * 2)

    def follow_map(self) -> None:
        """Adopt the map size set by another process, as soon as no transaction is open."""
        self._move(0)

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Translate LMDB's errors in the block into readable errors; see also `watching_pages`."""
        try:
            with watching_pages(self._path):
                yield
        except (lmdb.MapFullError, lmdb.MapResizedError):
            raise
        except lmdb.Error as error:
            raise translate(self._path, error) from error
        except OSError as error:
            msg = f"{self._path}: {error.strerror or error}"
            raise VolumeError(msg) from error

    def _begin(self, db: Any) -> lmdb.Transaction:  # noqa: ANN401 - lmdb's
        while True:
            self._enter()
            try:
                return self.lmdb.begin(db=db)
            except lmdb.MapResizedError:  # a writer has enlarged the map
                self._leave()
            except BaseException:
                self._leave()
                raise
            self.follow_map()

    def _enter(self) -> None:
        with self._change:
            self._change.wait_for(lambda: not self._is_moving)
            self._transactions += 1

    def _leave(self) -> None:
        with self._change:
            self._transactions -= 1
            self._change.notify_all()

    def _move(self, size: int) -> None:
        with self.turn:
            with self._change:
                self._is_moving = True
                self._change.wait_for(lambda: not self._transactions)
            try:
                self.lmdb.set_mapsize(size)
            finally:
                with self._change:
                    self._is_moving = False
                    self._change.notify_all()


def translate(path: Path, error: lmdb.Error) -> Exception:
    """Return a readable error for an LMDB error."""
    text = str(error)
    if os.strerror(errno.EAGAIN) in text:
        # Each LMDB reader locks a byte of the lock file, at the offset of its own pid. Two readers
        # with the same pid, in different containers, conflict.
        msg = (
            f"{path}: a process in another container has the ledger open and has the same pid, "
            f"{os.getpid()}, as this process, but LMDB identifies readers by pid; read the ledger "
            "from that container, or after that process has ended"
        )
        return LedgerInUseError(msg)
    if _OPEN_HERE in text:
        msg = (
            f"{path}: another thread of this process has the ledger open; wait until it has closed "
            "the ledger"
        )
        return LedgerInUseError(msg)
    is_volume = isinstance(error, (lmdb.DiskError, lmdb.LockError, lmdb.ReadonlyError))
    if is_volume or any(os.strerror(number) in text for number in _VOLUME_ERRORS):
        return VolumeError(f"{path}: the ledger can't be written: {text}")
    return LedgerError(f"{path}: the ledger can't be read: {text}")


def _explain_copy(path: Path, error: lmdb.Error) -> Exception:
    number = next((each for each in _TARGET_ERRORS if os.strerror(each) in str(error)), None)
    if number is None:
        return translate(path, error)
    return VolumeError(f"{path}: its copy can't be written: {os.strerror(number)}")


def explain_write(path: Path) -> LedgerInUseError:
    """Return the error to raise if another process wrote while this process read without a lock."""
    msg = (
        f"{path}: the ledger was written during a read from a read-only volume, where LMDB has no "
        "lock; read it again, or read it where it is written"
    )
    return LedgerInUseError(msg)
