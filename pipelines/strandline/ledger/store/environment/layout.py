"""Layouts that connect index entries and records, one for each format of a ledger.

In format 1, a record's key is the digest of its source. Digests arrive in random order, so pages of
records are only two thirds full. In format 2, finished sources are numbered in order of arrival and
records are stored under these numbers, which fills pages completely; the index entry has the
number. A ledger begins in format 1, which older versions can continue, and is converted once, when
its size begins to matter. The module must not depend on the content of records, or on when a source
is finished.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from strandline.ledger.store.index import IndexEntry, IndexRows, key_row, pack_entry

# These types belong to lmdb, which only the store imports.
Transaction = Any
Database = Any

NEW = 1  # format of new ledgers
LARGE = 100_000  # number of records; 13 MB, converted in under a second
_ATTEMPT = 3
_NUMBER = 5
_NEXT = b"next"
_ALWAYS = b"\xff" * 8  # greater than every stamp
_get_key = itemgetter(0)
Rows = Sequence[tuple[bytes, bytes]]


class Databases(NamedTuple):
    """Handles of the ledger's databases. The field names are the names on disk."""

    meta: Any
    finished: Any
    records: Any
    failures: Any
    inflight: Any
    quarantine: Any
    ungathered: Any
    untidy: Any
    starts: Any
    shared: Any


class Layout(Protocol):
    """A format of the ledger.

    Attributes:
        rows: packs the index.
    """

    @property
    def rows(self) -> IndexRows:
        """Return the functions that pack and find entries in index rows."""

    def take_stamps(
        self, txn: Transaction, meta: Database, starts: Database, count: int, attempt: int
    ) -> list[bytes]:
        """Return stamps for newly finished sources, later than all previous stamps."""

    def name_record(self, digest: bytes, stamp: bytes) -> bytes:
        """Return the key of a finished source's record."""

    def find_start(self, txn: Transaction, starts: Database, attempt: int | None) -> bytes:
        """Return the smallest stamp of the sources that the last attempt has finished.

        Args:
            attempt: the last attempt, or None to get a stamp that is greater than every other
                stamp.
        """

    def read_attempts(self, txn: Transaction, starts: Database) -> Callable[[bytes], int]:
        """Return a function that maps a stamp to the attempt that finished the source."""


class ByDigest:
    """Format 1: the stamp is the attempt, and the record's key is the digest."""

    rows = IndexRows(_ATTEMPT)

    def take_stamps(
        self,
        txn: Transaction,  # noqa: ARG002 - of the protocol
        meta: Database,  # noqa: ARG002 - the same
        starts: Database,  # noqa: ARG002 - the same
        count: int,
        attempt: int,
    ) -> list[bytes]:
        return [attempt.to_bytes(_ATTEMPT, "big")] * count

    def name_record(self, digest: bytes, stamp: bytes) -> bytes:  # noqa: ARG002 - of the protocol
        return digest

    def find_start(self, txn: Transaction, starts: Database, attempt: int | None) -> bytes:  # noqa: ARG002 - of the protocol
        # Attempt numbers grow, so all previous attempts have smaller stamps.
        return _ALWAYS if attempt is None else attempt.to_bytes(_ATTEMPT, "big")

    def read_attempts(self, txn: Transaction, starts: Database) -> Callable[[bytes], int]:  # noqa: ARG002 - of the protocol
        return _read_number


class ByNumber:
    """Format 2: the stamp is a unique number, which is also the record's key.

    The ledger has the first number of each attempt, so a number determines the attempt that
    finished the source.
    """

    rows = IndexRows(_NUMBER)

    def take_stamps(
        self, txn: Transaction, meta: Database, starts: Database, count: int, attempt: int
    ) -> list[bytes]:
        if not count:
            return []
        first = int(txn.get(_NEXT, db=meta) or 0)
        txn.put(_NEXT, str(first + count).encode(), db=meta)
        cursor, packed = txn.cursor(starts), attempt.to_bytes(_ATTEMPT, "big")
        if not cursor.last() or cursor.value() != packed:
            txn.put(first.to_bytes(_NUMBER, "big"), packed, db=starts)
        return [number.to_bytes(_NUMBER, "big") for number in range(first, first + count)]

    def name_record(self, digest: bytes, stamp: bytes) -> bytes:  # noqa: ARG002 - of the protocol
        return stamp

    def find_start(self, txn: Transaction, starts: Database, attempt: int | None) -> bytes:
        if attempt is None:
            return _ALWAYS
        cursor = txn.cursor(starts)
        is_begun = cursor.last() and int.from_bytes(cursor.value(), "big") == attempt
        return bytes(cursor.key()) if is_begun else _ALWAYS

    def read_attempts(self, txn: Transaction, starts: Database) -> Callable[[bytes], int]:
        firsts, attempts = [], []
        for first, attempt in txn.cursor(starts):
            firsts.append(first)
            attempts.append(int.from_bytes(attempt, "big"))
        return lambda stamp: attempts[bisect_right(firsts, stamp) - 1]


def _read_number(stamp: bytes) -> int:
    return int.from_bytes(stamp, "big")


LAYOUTS: dict[int, Layout] = {1: ByDigest(), 2: ByNumber()}


def is_due(txn: Transaction, dbs: Databases, layout: Layout) -> bool:
    """Return True if a ledger should be converted now.

    A ledger that an older version has already grown beyond twice the limit stays in format 1: its
    conversion would take long, and its file would not shrink.
    """
    is_old = layout is LAYOUTS[1]
    return is_old and LARGE <= txn.stat(dbs.records)["entries"] < 2 * LARGE


def convert(txn: Transaction, dbs: Databases) -> None:
    """Convert a ledger from format 1 to format 2, in the caller's transaction."""
    old, new = ByDigest(), ByNumber()
    # Sort by attempt: the numbers of an attempt must be consecutive.
    found = sorted(
        (stamp, digest, version)
        for digest, (version, stamp) in old.rows.list_entries(txn.cursor(dbs.finished))
    )
    rows: dict[bytes, bytes] = {}
    records = []
    for attempt, group in groupby(found, _get_key):
        finished = list(group)
        stamps = new.take_stamps(
            txn, dbs.meta, dbs.starts, len(finished), int.from_bytes(attempt, "big")
        )
        for (_, digest, version), stamp in zip(finished, stamps, strict=True):
            key = key_row(digest)
            rows[key] = rows.get(key, b"") + pack_entry(digest, IndexEntry(version, stamp))
            # A missing record means damage. Keep the index entry, so that a reader of the record
            # reports the damage.
            if (record := txn.get(digest, db=dbs.records)) is not None:
                records.append((stamp, record))
    for db, content in ((dbs.finished, sorted(rows.items())), (dbs.records, records)):
        txn.drop(db, delete=False)
        txn.cursor(db).putmulti(content)
    txn.put(b"format", b"2", db=dbs.meta)
