"""How entries of the index and records are tied together, in each format of a ledger.

In the first format a record's key is its source's digest. Digests come in any order, so the pages
that keep records stand a third empty. In the second one finished sources are numbered as they come:
records are put under their numbers, one after the other, which fills pages to the brim, and the
entry of the index has the number. A ledger begins in the first, which older versions can go on
with, and is converted once, when it has grown so far that its size begins to matter. This module
must not know what is in a record, nor when a source is finished.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from strandline.ledger.store.index import IndexEntry, IndexRows, key_row, pack_entry

# A transaction and a database are lmdb's, which only the store imports.
Transaction = Any
Database = Any

NEW = 1  # the format of a ledger that is made
LARGE = 100_000  # so many records are converted within a second, and take 13 MB
_ATTEMPT = 3
_NUMBER = 5
_NEXT = b"next"
_ALWAYS = b"\xff" * 8  # no stamp is as late
_get_key = itemgetter(0)
Rows = Sequence[tuple[bytes, bytes]]


class Databases(NamedTuple):
    """The handles of the ledger's databases; the field names are their names on disk."""

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
    """One format.

    Attributes:
        rows: packs the index.
    """

    @property
    def rows(self) -> IndexRows:
        """See above."""

    def take_stamps(
        self, txn: Transaction, meta: Database, starts: Database, count: int, attempt: int
    ) -> list[bytes]:
        """Return stamps for sources that an attempt finishes now; each later than all before."""

    def name_record(self, digest: bytes, stamp: bytes) -> bytes:
        """Return the key of a finished source's record."""

    def find_start(self, txn: Transaction, starts: Database, attempt: int | None) -> bytes:
        """Return the stamp from which on sources are finished by this attempt, which is the last.

        Args:
            attempt: None: no stamp is as late as what is returned.
        """

    def read_attempts(self, txn: Transaction, starts: Database) -> Callable[[bytes], int]:
        """Return what tells of a stamp which attempt has finished the source."""


class ByDigest:
    """Format 1: the stamp is the attempt, and the digest is the record's key."""

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
        # Attempts are numbered as they come, so those before have lower numbers.
        return _ALWAYS if attempt is None else attempt.to_bytes(_ATTEMPT, "big")

    def read_attempts(self, txn: Transaction, starts: Database) -> Callable[[bytes], int]:  # noqa: ARG002 - of the protocol
        return _read_number


class ByNumber:
    """Format 2: the stamp is a number that is never used again, and the record's key.

    What attempt has finished a source follows from the first number of each.
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
    """Return whether a ledger is to be converted now.

    One that has grown further in the first format, under an older version, stays in it: that would
    take long, and its file would not get smaller.
    """
    is_old = layout is LAYOUTS[1]
    return is_old and LARGE <= txn.stat(dbs.records)["entries"] < 2 * LARGE


def convert(txn: Transaction, dbs: Databases) -> None:
    """Bring a ledger from the first format into the second, in a transaction of the caller's."""
    old, new = ByDigest(), ByNumber()
    # By attempts, which come one after the other in the numbers.
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
            # A source that lacks its record is damaged, and stays so: the reader of its record
            # names it.
            if (record := txn.get(digest, db=dbs.records)) is not None:
                records.append((stamp, record))
    for db, content in ((dbs.finished, sorted(rows.items())), (dbs.records, records)):
        txn.drop(db, delete=False)
        txn.cursor(db).putmulti(content)
    txn.put(b"format", b"2", db=dbs.meta)
