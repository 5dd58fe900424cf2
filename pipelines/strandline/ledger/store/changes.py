"""Applies a change to the ledger's databases, within a transaction of the store.

Only the transitions between states are here. The store decides when a transaction begins, which
process may write, and how disk errors are handled; this module does not import lmdb.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from operator import itemgetter
from typing import Any, cast

from strandline.ledger.records.entries import (
    LISTED,
    Change,
    FailureRecord,
    Finish,
    Mark,
    QuarantinedSource,
)
from strandline.ledger.records.packing import create_packer, pack_record, read_pieces
from strandline.ledger.store.environment.layout import Database, Databases, Layout, Transaction
from strandline.ledger.store.index import IndexEntry, key_row, pack_entry
from strandline.ledger.store.shared import count_parts

_get_source = itemgetter(0)


def apply(txn: Transaction, dbs: Databases, layout: Layout, change: Change, attempt: int) -> None:
    """Apply `change` in the transaction `txn`.

    Args:
        layout: layout of the ledger's current format.
        attempt: the attempt to record for newly finished sources.
    """
    pack = create_packer()
    _note_pieces(txn, dbs, layout, change)
    count_parts(txn, dbs.shared, change, _find_former(txn, dbs, layout, change))
    # Sort by source, so that the transaction visits each page of a tree only once.
    marks = sorted(change.mark, key=_get_source)
    gone = dict.fromkeys((*(source for source, _ in marks), *change.forget))
    # If a change both finishes and removes a source, the source is removed. If a source has several
    # entries, the last entry counts.
    last = {item[0]: item for item in change.finish if item[0] not in gone}
    finish = sorted(last.values(), key=_get_source)
    _finish_all(txn, dbs, layout, (finish, gone), attempt)
    _rewrite(txn, dbs, layout, change.rewrite)
    _leave(txn, [item[0] for item in change.finish], (dbs.inflight, dbs.failures))
    _leave(txn, [*change.replaced, *change.forgiven], (dbs.failures, dbs.quarantine))
    _move(txn, _pack_all(marks, pack), dbs.inflight, (dbs.failures, dbs.quarantine))
    _move(txn, _pack_all(change.fail, pack), dbs.failures, (dbs.inflight,))
    out_of = (dbs.inflight, dbs.failures)
    _move(txn, _pack_all(change.quarantine, pack), dbs.quarantine, out_of)
    _leave(txn, change.forget, (dbs.failures, dbs.quarantine, dbs.inflight))
    _delete_all(txn, dbs.untidy, change.tidy)
    _put_all(txn, dbs.untidy, [(source, b"") for source in change.untidy])
    if finish or gone or change.rewrite:
        txn.delete(LISTED.encode(), db=dbs.meta)  # the recorded list is outdated
    for name, value in change.meta.items():
        txn.put(name.encode(), json.dumps(value).encode(), db=dbs.meta)


def get(txn: Transaction, db: Database, key: bytes) -> bytes | None:
    """Return the value under `key`.

    The cast to `bytes` is safe: lmdb's types permit buffers, but no transaction requests buffers.
    """
    return cast("bytes | None", txn.get(key, db=db))


def get_all(txn: Transaction, db: Database, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the values of all existing `keys`."""
    return cast("dict[bytes, bytes]", dict(txn.cursor(db).getmulti(list(keys))))


def read_packed(
    txn: Transaction, dbs: Databases, layout: Layout, source: bytes, entry: IndexEntry
) -> bytes | None:
    """Return the packed record of a finished source. None means that the ledger is damaged."""
    return get(txn, dbs.records, layout.name_record(source, entry.stamp))


def find_packed(
    txn: Transaction, dbs: Databases, layout: Layout, sources: Iterable[bytes]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield digest, version, and packed record of each finished source among `sources`."""
    for source in sources:
        row = get(txn, dbs.finished, key_row(source))
        if row and (entry := layout.rows.find(row, source)) is not None:
            packed = read_packed(txn, dbs, layout, source, entry)
            if packed is not None:
                yield source, entry.version, packed


def _pack_all(
    entries: Iterable[tuple[bytes, Mark | FailureRecord | QuarantinedSource]],
    pack: Callable[[Any], bytes],
) -> list[tuple[bytes, bytes]]:
    return [(source, pack(entry)) for source, entry in entries]


def _move(
    txn: Transaction,
    rows: Sequence[tuple[bytes, bytes]],
    into: Database,
    out_of: Iterable[Database],
) -> None:
    if rows:
        _put_all(txn, into, rows)
        _leave(txn, [source for source, _ in rows], out_of)


def _leave(txn: Transaction, sources: Iterable[bytes], out_of: Iterable[Database]) -> None:
    for db in out_of:
        _delete_all(txn, db, sources)


def _put_all(
    txn: Transaction,
    db: Database,
    rows: Iterable[tuple[bytes, bytes]],
) -> None:
    """Write rows in the order of their keys. For duplicate keys, the last row counts."""
    txn.cursor(db).putmulti(sorted(rows, key=_get_source))


def _delete_all(txn: Transaction, db: Database, keys: Iterable[bytes]) -> None:
    """Delete all existing `keys`."""
    # During most of a run, most of these databases are empty. Skip them, because deletions would
    # slow down every source.
    if txn.stat(db)["entries"]:
        for key in keys:
            txn.delete(key, db=db)


def _note_pieces(txn: Transaction, dbs: Databases, layout: Layout, change: Change) -> None:
    """Record sources with new pieces, and count dropped pieces.

    Dropped pieces invalidate the merged files.
    """
    new = [source for source, _, record in change.finish if record.pieces]
    is_used = new or change.gathered is not None or txn.stat(dbs.ungathered)["entries"]
    if not is_used and get(txn, dbs.meta, b"gathered") is None:
        return
    dropped = 0
    gone = (*(source for source, _ in change.mark), *change.forget, *change.replaced)
    for source, _, packed in find_packed(txn, dbs, layout, gone):
        if read_pieces(packed):
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


def _strike(txn: Transaction, ungathered: Database, generation: int) -> None:
    """Delete all entries of a generation and of earlier generations."""
    cursor = txn.cursor(ungathered)
    is_there = cursor.first()
    while is_there:
        is_gathered = int.from_bytes(cursor.value(), "big") <= generation
        is_there = (cursor.delete() and bool(cursor.key())) if is_gathered else cursor.next()


def _find_former(
    txn: Transaction, dbs: Databases, layout: Layout, change: Change
) -> Iterator[bytes]:
    """Yield the packed records that are about to be deleted or replaced."""
    gone = (*(source for source, _ in change.mark), *change.forget, *change.replaced)
    touched = dict.fromkeys((*gone, *(source for source, _, _ in change.rewrite)))
    return (packed for _, _, packed in find_packed(txn, dbs, layout, touched))


def _rewrite(txn: Transaction, dbs: Databases, layout: Layout, rewrite: Sequence[Finish]) -> None:
    """Replace records of finished sources. The finishing attempt stays the same."""
    for source, version, record in rewrite:
        row = get(txn, dbs.finished, key_row(source))
        if row and (entry := layout.rows.find(row, source)) is not None:
            key = layout.name_record(source, entry.stamp)
            txn.put(key, pack_record(source, version, record), db=dbs.records)


def _finish_all(
    txn: Transaction,
    dbs: Databases,
    layout: Layout,
    changed: tuple[Sequence[Finish], Iterable[bytes]],
    attempt: int,
) -> None:
    """Add finished sources to index and records, and remove the sources in `gone`."""
    finish, gone = changed
    stamps = layout.take_stamps(txn, dbs.meta, dbs.starts, len(finish), attempt)
    entries = [
        (source, IndexEntry(version, stamp))
        for (source, version, _), stamp in zip(finish, stamps, strict=True)
    ]
    dropped = _change_index(txn, dbs.finished, layout, entries, gone)
    _delete_all(txn, dbs.records, sorted(starmap(layout.name_record, dropped)))
    pack = create_packer()
    records = [
        (layout.name_record(source, stamp), pack_record(source, version, record, pack))
        for (source, version, record), stamp in zip(finish, stamps, strict=True)
    ]
    _put_all(txn, dbs.records, records)


def _change_index(
    txn: Transaction,
    db: Database,
    layout: Layout,
    entries: Sequence[tuple[bytes, IndexEntry]],
    gone: Iterable[bytes],
) -> list[tuple[bytes, bytes]]:
    """Write and remove index entries. Return digests and stamps of the removed entries.

    Entries are processed in the given order, because the order determines the bytes of a row.
    """
    rows = layout.rows
    new_keys = [key_row(source) for source, _ in entries]
    gone_keys = [key_row(source) for source in gone]
    old = get_all(txn, db, dict.fromkeys((*new_keys, *gone_keys)))
    changed: dict[bytes, bytes] = {}
    dropped = []
    for key, (source, entry) in zip(new_keys, entries, strict=True):
        row = changed.get(key) or old.get(key, b"")
        if row and (before := rows.find(row, source)) is not None:
            dropped.append((source, before.stamp))
            row = rows.remove(row, source)
        changed[key] = row + pack_entry(source, entry)
    for key, source in zip(gone_keys, gone, strict=True):
        row = changed[key] if key in changed else old.get(key, b"")
        if row and (before := rows.find(row, source)) is not None:  # most have no entry yet
            dropped.append((source, before.stamp))
            changed[key] = rows.remove(row, source)
    _put_all(txn, db, [(key, row) for key, row in changed.items() if row])
    _delete_all(txn, db, [key for key, row in changed.items() if not row])
    return dropped
