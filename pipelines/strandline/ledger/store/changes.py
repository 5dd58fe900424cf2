"""What a change does to the ledger's databases, inside one transaction that somebody else holds.

It spells the moves between states and nothing else: when a transaction begins, who may write and
what a failing disk means is the store's to say, and so is lmdb itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple, cast

from strandline.ledger.entries import (
    Change,
    FailureRecord,
    Mark,
    Quarantined,
    pack,
    pack_record,
    read_pieces,
)
from strandline.ledger.store.index import IndexEntry, key_row, put_entry, remove_entry

# A transaction and a database are lmdb's, which this room does not import.
Transaction = Any


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


def apply(txn: Transaction, dbs: Databases, change: Change, attempt: int) -> None:
    """Do in `txn` all that `change` says.

    Args:
        attempt: the number that newly finished sources get.
    """
    _note_pieces(txn, dbs, change)
    _change_index(txn, dbs, change, attempt)
    for source, version, record in change.finish:
        txn.put(source, pack_record(source, version, record), db=dbs.records)
        txn.delete(source, db=dbs.inflight)
        txn.delete(source, db=dbs.failures)
    elsewhere = (dbs.records, dbs.failures, dbs.quarantine)
    _move(txn, change.mark, dbs.inflight, elsewhere)
    _move(txn, change.fail, dbs.failures, (dbs.inflight,))
    _move(txn, change.quarantine, dbs.quarantine, (dbs.inflight, dbs.failures))
    for source in change.forget:
        for db in (*elsewhere, dbs.inflight):
            txn.delete(source, db=db)
    for source in change.tidy:
        txn.delete(source, db=dbs.untidy)
    for source in change.untidy:
        txn.put(source, b"", db=dbs.untidy)
    for name, value in change.meta.items():
        txn.put(name.encode(), json.dumps(value).encode(), db=dbs.meta)


def get(txn: Transaction, db: Any, key: bytes) -> bytes | None:  # noqa: ANN401 - lmdb's
    """Return the value under `key`.

    Lmdb's types allow for buffers, which no transaction asks for.
    """
    return cast("bytes | None", txn.get(key, db=db))


def get_all(txn: Transaction, db: Any, keys: Iterable[bytes]) -> dict[bytes, bytes]:  # noqa: ANN401 - lmdb's
    """Return the values of those of `keys` that there are."""
    return cast("dict[bytes, bytes]", dict(txn.cursor(db).getmulti(list(keys))))


def _move(
    txn: Transaction,
    entries: Iterable[tuple[bytes, Mark | FailureRecord | Quarantined]],
    into: Any,  # noqa: ANN401 - lmdb's
    out_of: Iterable[Any],
) -> None:
    for source, entry in entries:
        txn.put(source, pack(entry), db=into)
        for db in out_of:
            txn.delete(source, db=db)


def _note_pieces(txn: Transaction, dbs: Databases, change: Change) -> None:
    """Keep track of what was gathered since, and of whether what was merged still holds."""
    new = [source for source, _, record in change.finish if record.pieces]
    is_used = new or change.gathered is not None or txn.stat(dbs.ungathered)["entries"]
    if not is_used and get(txn, dbs.meta, b"gathered") is None:
        return
    dropped = 0
    for source in (*(source for source, _ in change.mark), *change.forget):
        packed = get(txn, dbs.records, source)
        if packed and read_pieces(packed):
            dropped += 1
            txn.delete(source, db=dbs.ungathered)
    if dropped:
        drops = int(get(txn, dbs.meta, b"drops") or 0) + dropped
        txn.put(b"drops", str(drops).encode(), db=dbs.meta)
    generation = int(get(txn, dbs.meta, b"generation") or 0)
    for source in new:
        txn.put(source, generation.to_bytes(8, "big"), db=dbs.ungathered)
    if change.gathered is not None:
        _strike(txn, dbs.ungathered, change.gathered)


def _strike(txn: Transaction, ungathered: Any, generation: int) -> None:  # noqa: ANN401 - lmdb's
    """Strike out what belongs to a generation or to one before."""
    cursor = txn.cursor(ungathered)
    is_there = cursor.first()
    while is_there:
        is_gathered = int.from_bytes(cursor.value(), "big") <= generation
        is_there = (cursor.delete() and bool(cursor.key())) if is_gathered else cursor.next()


def _change_index(txn: Transaction, dbs: Databases, change: Change, attempt: int) -> None:
    entries: list[tuple[bytes, IndexEntry | None]] = [
        (source, IndexEntry(version, attempt)) for source, version, _ in change.finish
    ]
    entries += [(source, None) for source, _ in change.mark]
    entries += [(source, None) for source in change.forget]
    entries.sort(key=lambda item: item[0])
    for key, group in groupby(entries, key=lambda item: key_row(item[0])):
        old = row = get(txn, dbs.finished, key) or b""
        for source, entry in group:
            row = put_entry(row, source, entry) if entry else remove_entry(row, source)
        if row:
            txn.put(key, row, db=dbs.finished)
        elif old:
            txn.delete(key, db=dbs.finished)
