"""Reads the ledger through the memory map of LMDB.

The module must not depend on leases and writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import lmdb

from strandline.ledger.errors import LedgerError, LedgerInUseError
from strandline.ledger.records.entries import (
    FailureRecord,
    FinishedEntry,
    ListedSource,
    Mark,
    QuarantinedSource,
    SharedFile,
    SourceRecord,
)
from strandline.ledger.records.packing import (
    unpack_failure,
    unpack_mark,
    unpack_quarantined,
    unpack_record,
)
from strandline.ledger.store.changes import find_packed, get, get_all, read_packed
from strandline.ledger.store.environment.environment import LedgerEnvironment, explain_write
from strandline.ledger.store.environment.inspection import UNREADABLE, check_image, describe_damage
from strandline.ledger.store.environment.layout import (
    LAYOUTS,
    Databases,
    Layout,
    Rows,
)
from strandline.ledger.store.index import key_row
from strandline.ledger.store.reading.portions import read_portion, take_pieces
from strandline.ledger.store.shared import unpack_shared
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Piece
from strandline.storage.layout import is_mounted_readonly

_TRIES = 20  # tries to read a portion while another host writes
T = TypeVar("T")


class StoreReader:
    """The open LMDB environment of a ledger, with all read operations.

    Args:
        path: folder of the environment.
        readonly: open for reading only. Writers are not blocked.
        map_size: initial size of the map in bytes.

    Raises:
        LedgerError: if the files are damaged. `LedgerInUseError` if a process that LMDB can't
            distinguish from this process has the ledger open.
        VolumeError: if the folder can't be used.
    """

    def __init__(self, path: Path, *, readonly: bool, map_size: int) -> None:
        self._path = path
        data = path / "data.mdb"
        if readonly and not (data.exists() and data.stat().st_size):
            raise LedgerError(explain_absence(path))
        check_image(data)
        self._environment = LedgerEnvironment(
            path,
            map_size=max(map_size, data.stat().st_size if data.exists() else 0),
            max_dbs=len(Databases._fields),
            readonly=readonly,
            create=not readonly,
            max_readers=512,
        )
        self._env, self._translating = self._environment.lmdb, self._environment.translating
        # On a read-only mount, LMDB opens without a lock, so a writer elsewhere may reuse pages
        # that this process is reading.
        self._is_unlocked = readonly and is_mounted_readonly(path)
        try:
            with self._translating():
                self._dbs = Databases(*(self._open(name, readonly) for name in Databases._fields))
        except BaseException:
            self._env.close()
            raise

    def close(self) -> None:
        """Close the environment. The store can't be used afterwards."""
        self._env.close()

    def describe_readers(self) -> str:
        """Return LMDB's table of readers, including processes that died while reading."""
        with self._translating():
            return str(self._env.readers())

    def copy(self, handle: int) -> None:
        """Write a copy of one committed state to a file descriptor. Writers are not blocked.

        Raises:
            LedgerInUseError: if another process wrote during a copy from a read-only mount, where
                LMDB has no lock.
        """
        before = self.read_version()
        self._environment.copy(handle)
        if self._is_unlocked and self.read_version() != before:
            raise explain_write(self._path)

    def read_meta(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON value under `name`, or None if it is missing."""
        with self._reading() as txn:
            packed = get(txn, self._dbs.meta, name.encode())
            return None if packed is None else json.loads(packed)

    def find_finished(self, digests: Sequence[bytes]) -> dict[bytes, FinishedEntry]:
        """Return the entries of the finished sources among `digests` (16 bytes each)."""
        with self._reading(self._dbs.finished) as txn:
            look_up = cast("Callable[[bytes], bytes | None]", txn.get)
            rows = zip(digests, map(look_up, map(key_row, digests)), strict=True)
            return self._read_entries(txn, self._find_layout(txn), rows)

    def find_unfinished(
        self, batch: Sequence[ListedSource], attempt: int | None = None
    ) -> list[tuple[int, ListedSource, FinishedEntry | None]]:
        """Return the sources of a batch that are not finished in their current version, in order.

        Args:
            attempt: also return sources that this attempt has finished; None for no attempt.

        Returns:
            The index in the batch, the source, and its index entry. The entry is None unless
            another version is finished or this attempt has finished the source.
        """
        left: list[tuple[int, ListedSource, bytes | None]] = []
        with self._reading(self._dbs.finished) as txn:
            layout = self._find_layout(txn)
            is_finished_before = layout.rows.is_finished_before
            look_up = cast("Callable[[bytes], bytes | None]", txn.get)
            since = layout.find_start(txn, self._dbs.starts, attempt)
            for index, listed in enumerate(batch):
                digest = listed[0]
                row = look_up(key_row(digest))
                if row is None or not is_finished_before(row, digest, listed[1], since):
                    left.append((index, listed, row))
            rows = ((listed[0], row) for _, listed, row in left)
            entries = self._read_entries(txn, layout, rows) if left else {}
        return [(index, listed, entries.get(listed[0])) for index, listed, _ in left]

    def _read_entries(
        self, txn: lmdb.Transaction, layout: Layout, rows: Iterable[tuple[bytes, bytes | None]]
    ) -> dict[bytes, FinishedEntry]:
        """Return the index entries of digests from the given rows."""
        attempt_of = layout.read_attempts(txn, self._dbs.starts)
        return {
            digest: FinishedEntry(entry.version, attempt_of(entry.stamp))
            for digest, row in rows
            if row is not None and (entry := layout.rows.find(row, digest)) is not None
        }

    def find_marks(self, digests: Iterable[bytes]) -> dict[bytes, Mark]:
        """Return the marks of the sources in flight among `digests`."""
        return self._find(self._dbs.inflight, digests, unpack_mark)

    def find_failures(self, digests: Iterable[bytes]) -> dict[bytes, FailureRecord]:
        """Return the failures of the failed sources among `digests`."""
        return self._find(self._dbs.failures, digests, unpack_failure)

    def find_quarantined(self, digests: Iterable[bytes]) -> dict[bytes, QuarantinedSource]:
        """Return the quarantined sources among `digests`."""
        return self._find(self._dbs.quarantine, digests, unpack_quarantined)

    def list_records(self) -> Iterator[tuple[bytes, FinishedEntry, SourceRecord]]:
        """Yield every finished source with its record, in unspecified order."""
        return self._list(self._dbs.finished, self._take_records)

    def list_attempts(self) -> set[int]:
        """Return all attempts that entries of finished or unfinished sources name."""

        def take(txn: lmdb.Transaction, dbs: Databases, layout: Layout, rows: Rows) -> set[int]:
            attempt_of = layout.read_attempts(txn, dbs.starts)
            return {attempt_of(found.stamp) for _, found in layout.rows.list_entries(rows)}

        left = (self.list_marks(), self.list_failures(), self.list_quarantined())
        others = {each.attempt for entries in left for _, each in entries}
        return others.union(self._list(self._dbs.finished, take))

    def find_records(self, digests: Iterable[bytes]) -> dict[bytes, SourceRecord]:
        """Return the records of the finished sources among `digests`."""
        with self._reading() as txn:
            return {
                digest: unpack_record(digest, version, packed)
                for digest, version, packed in find_packed(
                    txn, self._dbs, self._find_layout(txn), digests
                )
            }

    def list_untidy(self) -> Iterator[bytes]:
        """Yield every finished source whose folder has leftovers to remove."""
        if self._dbs.untidy is not None:
            yield from (digest for digest, _ in self._list_each(self._dbs.untidy, bytes))

    def list_shared(self) -> Iterator[tuple[bytes, SharedFile]]:
        """Yield every shared file with its name."""
        if self._dbs.shared is not None:
            yield from self._list_each(self._dbs.shared, unpack_shared)

    def list_pieces(
        self, generation: int, *, is_whole: bool
    ) -> Iterator[tuple[bytes, tuple[Piece, ...]]]:
        """Yield sources and their gathered pieces, in the order of the digests.

        Args:
            generation, is_whole: see `take_pieces`.
        """
        db = self._dbs.finished if is_whole else self._dbs.ungathered
        take = take_pieces(generation, is_whole=is_whole)
        return self._list(db, take)

    def list_marks(self) -> Iterator[tuple[bytes, Mark]]:
        """Yield every source in flight."""
        return self._list_each(self._dbs.inflight, unpack_mark)

    def list_failures(self) -> Iterator[tuple[bytes, FailureRecord]]:
        """Yield every failed source."""
        return self._list_each(self._dbs.failures, unpack_failure)

    def list_quarantined(self) -> Iterator[tuple[bytes, QuarantinedSource]]:
        """Yield every quarantined source."""
        return self._list_each(self._dbs.quarantine, unpack_quarantined)

    def read_version(self) -> int:
        """Return a number that grows with every change."""
        return int(self._env.info()["last_txnid"])

    def count(self) -> dict[str, int]:
        """Return the number of `finished`, `failed`, `inflight`, and `quarantined` sources."""
        with self._reading() as txn:
            names = {
                "finished": self._dbs.records,
                "failed": self._dbs.failures,
                "inflight": self._dbs.inflight,
                "quarantined": self._dbs.quarantine,
            }
            return {name: txn.stat(db)["entries"] for name, db in names.items()}

    def _open(self, name: str, readonly: bool) -> Any:  # noqa: ANN401, FBT001 - lmdb's
        try:
            return self._env.open_db(name.encode(), create=not readonly)
        except lmdb.NotFoundError as error:
            if name not in {"ungathered", "untidy", "starts", "shared"}:
                # The ledger is being created, or its creator was killed.
                raise LedgerError(explain_absence(self._path)) from error
            return None  # missing in ledgers of older releases

    def _find_layout(self, txn: lmdb.Transaction) -> Layout:
        """Return the current layout, which the ledger's writer may have changed."""
        found = json.loads(get(txn, self._dbs.meta, b"format") or b"1")
        if found not in LAYOUTS:
            known = " and ".join(map(str, LAYOUTS))
            msg = (
                f"{self._path}: the ledger has format {found}, this version reads formats {known}; "
                "use the version of strandline that wrote it"
            )
            raise LedgerError(msg)
        return LAYOUTS[found]

    def _find(
        self,
        db: Any,  # noqa: ANN401 - lmdb's
        digests: Iterable[bytes],
        unpack: Callable[[bytes], T],
    ) -> dict[bytes, T]:
        with self._reading() as txn:
            # Skip empty databases. In most runs, most databases are empty.
            found = get_all(txn, db, digests) if txn.stat(db)["entries"] else {}
            return {digest: unpack(packed) for digest, packed in found.items()}

    def _list(
        self,
        db: Any,  # noqa: ANN401 - lmdb's
        take: Callable[[lmdb.Transaction, Databases, Layout, Rows], Iterable[T]],
    ) -> Iterator[T]:
        """Yield results for all rows of a database. Between portions, no transaction is open."""
        after = b""
        while True:
            for tries_left in reversed(range(_TRIES)):
                try:
                    with self._reading() as txn:
                        portion = read_portion(txn, db, after)
                        rows = portion.rows if portion else []
                        found = list(take(txn, self._dbs, self._find_layout(txn), rows))
                    break
                except LedgerInUseError:
                    if not tries_left:
                        raise
            if portion is None:
                return
            yield from found
            after = portion.last

    def _list_each(self, db: Any, unpack: Callable[[bytes], T]) -> Iterator[tuple[bytes, T]]:  # noqa: ANN401 - the same
        return self._list(db, lambda *row: [(key, unpack(packed)) for key, packed in row[-1]])

    def _take_records(
        self, txn: lmdb.Transaction, dbs: Databases, layout: Layout, rows: Rows
    ) -> Iterator[tuple[bytes, FinishedEntry, SourceRecord]]:
        attempt_of = layout.read_attempts(txn, dbs.starts)
        for digest, found in layout.rows.list_entries(rows):
            packed = read_packed(txn, dbs, layout, digest, found)
            if packed is None:
                msg = f"{self._path}: source {digest.hex()} is finished without a record"
                raise LedgerError(msg)
            entry = FinishedEntry(found.version, attempt_of(found.stamp))
            yield digest, entry, unpack_record(digest, found.version, packed)

    @contextmanager
    def _reading(self, db: Any = None) -> Iterator[lmdb.Transaction]:  # noqa: ANN401 - lmdb's
        with self._translating(), self._environment.reading(db) as txn:
            try:
                yield txn
            except StrandlineError:  # the message is already readable
                raise
            # The decoders can read everything that this package writes, so the bytes are damaged.
            except UNREADABLE as error:
                msg = f"{self._path}: the ledger can't be read: {describe_damage(error)}"
                raise LedgerError(msg) from error
            finally:
                if self._is_unlocked and self.read_version() > txn.id():
                    raise explain_write(self._path)


def explain_absence(path: Path) -> str:
    """Return the message for a missing ledger."""
    return f"{path}: there is no ledger here; has the pipeline been run with this volume?"
