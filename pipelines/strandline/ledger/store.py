"""The ledger's bytes: an LMDB environment, read through the memory map, written in transactions.

It keeps states and gives them back. When a source counts as finished is the tally's to say, in
which order things become durable the keeper's. The only room that imports lmdb.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import lmdb

from strandline.ledger.entries import (
    Change,
    FailureRecord,
    Mark,
    Record,
    pack,
    pack_record,
    unpack_failure,
    unpack_mark,
    unpack_record,
)
from strandline.ledger.errors import LeaseLostError, LedgerError
from strandline.ledger.index import (
    Entry,
    find_entry,
    key_row,
    list_entries,
    put_entry,
    remove_entry,
)
from strandline.ledger.inspection import check_image
from strandline.storage import faults
from strandline.storage.errors import VolumeError

FORMAT = 1
INITIAL_MAP = 1 << 26
_VOLUME_ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM)
_DATABASES = ("meta", "finished", "records", "failures", "inflight", "quarantine")


class Store:
    """An open ledger.

    Args:
        path: folder of the environment.
        readonly: for looking only; writers are not disturbed.
        map_size: bytes of the first map; it doubles whenever it is full.

    Raises:
        LedgerError: the files are damaged, or of a newer format.
        VolumeError: the folder can't be used.
    """

    def __init__(self, path: Path, *, readonly: bool = False, map_size: int = INITIAL_MAP) -> None:
        self._path = path
        data = path / "data.mdb"
        if readonly and not (data.exists() and data.stat().st_size):
            msg = f"{path}: there is no ledger here; has the pipeline been run with this volume?"
            raise LedgerError(msg)
        check_image(data)
        with self._translating():
            self._env = lmdb.open(
                str(path),
                map_size=max(map_size, data.stat().st_size if data.exists() else 0),
                max_dbs=len(_DATABASES),
                readonly=readonly,
                create=not readonly,
                max_readers=512,
            )
            opened = [self._env.open_db(name.encode(), create=not readonly) for name in _DATABASES]
        self._meta, self._finished, self._records, self._failures, self._inflight, _ = opened
        self._lease: tuple[int, str] | None = None
        self._check_format(readonly=readonly)

    def close(self) -> None:
        """Close the environment; the store is of no use afterwards."""
        self._env.close()

    def read_meta(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """A JSON value kept under `name`; None where there is none."""
        with self._reading() as txn:
            packed = _get(txn, self._meta, name.encode())
        return None if packed is None else json.loads(packed)

    def take_lease(self, lease: dict[str, Any]) -> None:
        """Write the lease of this attempt; every later transaction requires that it still stands.

        Args:
            lease: JSON-able, with `attempt` (int) and `uid` (str).
        """
        self.write(Change(meta={"lease": lease}))
        self.keep_lease(lease["attempt"], lease["uid"])
        faults.reach("lease.written")

    def keep_lease(self, attempt: int, uid: str) -> None:
        """Write on under a lease that was taken by the process that started this one."""
        self._lease = (attempt, uid)

    def find_finished(self, digests: Sequence[bytes]) -> dict[bytes, Entry]:
        """The entries of those of `digests` (16 bytes each) that are finished."""
        found = {}
        with self._reading(self._finished) as txn:
            get = cast("Callable[[bytes], bytes | None]", txn.get)
            for digest, row in zip(digests, map(get, map(key_row, digests)), strict=True):
                if row is not None and (entry := find_entry(row, digest)) is not None:
                    found[digest] = entry
        return found

    def find_marks(self, digests: Iterable[bytes]) -> dict[bytes, Mark]:
        """The marks of those of `digests` that are in flight."""
        with self._reading() as txn:
            found = _get_all(txn, self._inflight, digests)
            return {digest: unpack_mark(packed) for digest, packed in found.items()}

    def find_failures(self, digests: Iterable[bytes]) -> dict[bytes, FailureRecord]:
        """The failures of those of `digests` that failed."""
        with self._reading() as txn:
            found = _get_all(txn, self._failures, digests)
            return {digest: unpack_failure(packed) for digest, packed in found.items()}

    def list_finished(self) -> Iterator[tuple[bytes, Entry]]:
        """Every finished source, in no useful order."""
        with self._reading() as txn:
            for key, row in _walk(txn, self._finished):
                yield from list_entries(key, row)

    def list_records(self) -> Iterator[tuple[bytes, Entry, Record]]:
        """Every finished source with its record."""
        with self._reading() as txn:
            for key, row in _walk(txn, self._finished):
                for digest, entry in list_entries(key, row):
                    packed = _get(txn, self._records, digest)
                    if packed is None:
                        msg = f"{self._path}: source {digest.hex()} is finished without a record"
                        raise LedgerError(msg)
                    yield digest, entry, unpack_record(digest, entry.version, packed)

    def list_marks(self) -> Iterator[tuple[bytes, Mark]]:
        """Every source in flight."""
        with self._reading() as txn:
            for digest, packed in _walk(txn, self._inflight):
                yield digest, unpack_mark(packed)

    def list_failures(self) -> Iterator[tuple[bytes, FailureRecord]]:
        """Every failed source."""
        with self._reading() as txn:
            for digest, packed in _walk(txn, self._failures):
                yield digest, unpack_failure(packed)

    def count(self) -> dict[str, int]:
        """How many sources are `finished`, `failed` and `inflight`."""
        with self._reading() as txn:
            names = {
                "finished": self._records,
                "failed": self._failures,
                "inflight": self._inflight,
            }
            return {name: txn.stat(db)["entries"] for name, db in names.items()}

    def write(self, change: Change) -> None:
        """Make a change durable, whole or not at all.

        Raises:
            LeaseLostError: another attempt has the ledger.
            VolumeError: the disk is full or fails; nothing of the change is kept.
        """
        while True:
            try:
                with self._translating(), self._env.begin(write=True) as txn:
                    self._check_lease(txn)
                    self._apply(txn, change)
                    faults.reach("commit.written")
            except lmdb.MapFullError:
                self._env.set_mapsize(self._env.info()["map_size"] * 2)
            except lmdb.MapResizedError:  # another attempt has grown it, and may have the lease
                self._env.set_mapsize(0)
            else:
                return

    def _apply(self, txn: lmdb.Transaction, change: Change) -> None:
        attempt = self._lease[0] if self._lease else 0
        self._change_index(txn, change, attempt)
        for source, version, record in change.finish:
            txn.put(source, pack_record(source, version, record), db=self._records)
            txn.delete(source, db=self._inflight)
            txn.delete(source, db=self._failures)
        for source, mark in change.mark:
            txn.put(source, pack(mark), db=self._inflight)
            txn.delete(source, db=self._records)
            txn.delete(source, db=self._failures)
        for source, failure in change.fail:
            txn.put(source, pack(failure), db=self._failures)
            txn.delete(source, db=self._inflight)
        for source in change.forget:
            for db in (self._records, self._failures, self._inflight):
                txn.delete(source, db=db)
        for name, value in change.meta.items():
            txn.put(name.encode(), json.dumps(value).encode(), db=self._meta)

    def _change_index(self, txn: lmdb.Transaction, change: Change, attempt: int) -> None:
        entries: list[tuple[bytes, Entry | None]] = [
            (source, Entry(version, attempt)) for source, version, _ in change.finish
        ]
        entries += [(source, None) for source, _ in change.mark]
        entries += [(source, None) for source in change.forget]
        entries.sort(key=lambda item: item[0])
        for key, group in groupby(entries, key=lambda item: key_row(item[0])):
            old = row = _get(txn, self._finished, key) or b""
            for source, entry in group:
                row = put_entry(row, source, entry) if entry else remove_entry(row, source)
            if row:
                txn.put(key, row, db=self._finished)
            elif old:
                txn.delete(key, db=self._finished)

    def _check_lease(self, txn: lmdb.Transaction) -> None:
        if self._lease is None:
            return
        lease = json.loads(_get(txn, self._meta, b"lease") or b"{}")
        if (lease.get("attempt"), lease.get("uid")) != self._lease:
            msg = f"{self._path}: attempt {lease.get('attempt')} has taken the ledger over"
            raise LeaseLostError(msg)

    def _check_format(self, *, readonly: bool) -> None:
        found = self.read_meta("format")
        if found is None and not readonly:
            self.write(Change(meta={"format": FORMAT}))
        elif found is not None and found != FORMAT:
            msg = (
                f"{self._path}: the ledger has format {found}, this version reads format {FORMAT}; "
                "use the version of strandline that wrote it"
            )
            raise LedgerError(msg)

    @contextmanager
    def _reading(self, db: Any = None) -> Iterator[lmdb.Transaction]:  # noqa: ANN401 - lmdb's
        with self._translating():
            try:
                txn = self._env.begin(db=db)
            except lmdb.MapResizedError:  # a writer has grown the map since
                self._env.set_mapsize(0)
                txn = self._env.begin(db=db)
            with txn:
                yield txn

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (lmdb.MapFullError, lmdb.MapResizedError):
            raise
        except lmdb.Error as error:
            raise _translate(self._path, error) from error
        except OSError as error:
            msg = f"{self._path}: {error.strerror or error}"
            raise VolumeError(msg) from error


# lmdb's types allow for buffers, which no transaction here asks for.


def _get(txn: lmdb.Transaction, db: Any, key: bytes) -> bytes | None:  # noqa: ANN401
    return cast("bytes | None", txn.get(key, db=db))


def _get_all(txn: lmdb.Transaction, db: Any, keys: Iterable[bytes]) -> dict[bytes, bytes]:  # noqa: ANN401
    return cast("dict[bytes, bytes]", dict(txn.cursor(db).getmulti(list(keys))))


def _walk(txn: lmdb.Transaction, db: Any) -> Iterator[tuple[bytes, bytes]]:  # noqa: ANN401
    return cast("Iterator[tuple[bytes, bytes]]", iter(txn.cursor(db)))


def _translate(path: Path, error: lmdb.Error) -> Exception:
    text = str(error)
    is_volume = isinstance(error, (lmdb.DiskError, lmdb.LockError, lmdb.ReadonlyError))
    if is_volume or any(os.strerror(number) in text for number in _VOLUME_ERRORS):
        return VolumeError(f"{path}: the ledger can't be written: {text}")
    return LedgerError(f"{path}: the ledger can't be read: {text}")
