"""What a change does to the ledger's databases, inside one transaction that somebody else holds.

It spells the moves between states and nothing else: when a transaction begins, who may write and
what a failing disk means is the store's to say, and so is lmdb itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

from strandline.ledger.entries import (
    Change,
    FailureRecord,
    Finish,
    Mark,
    Quarantined,
    create_packer,
    pack_record,
    read_pieces,
)
from strandline.ledger.store.index import IndexEntry, key_row, put_entry, remove_entry

# A transaction and a database are lmdb's, which this room does not import.
Transaction = Any
_get_source = itemgetter(0)


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
    pack = create_packer()
    _note_pieces(txn, dbs, change)
    # By source: so the pages of a tree are touched in order, each of them once.
    finish = sorted(change.finish, key=_get_source)
    marks = sorted(change.mark, key=_get_source)
    gone = [*(source for source, _ in marks), *change.forget]
    _change_index(txn, dbs.finished, finish, gone, attempt)
    records = [
        (source, pack_record(source, version, record, pack)) for source, version, record in finish
    ]
    _move(txn, records, dbs.records, (dbs.inflight, dbs.failures))
    elsewhere = (dbs.records, dbs.failures, dbs.quarantine)
    _move(txn, _pack_all(marks, pack), dbs.inflight, elsewhere)
    _move(txn, _pack_all(change.fail, pack), dbs.failures, (dbs.inflight,))
    out_of = (dbs.inflight, dbs.failures)
    _move(txn, _pack_all(change.quarantine, pack), dbs.quarantine, out_of)
    for db in (*elsewhere, dbs.inflight):
        _delete_all(txn, db, change.forget)
    _delete_all(txn, dbs.untidy, change.tidy)
    _put_all(txn, dbs.untidy, [(source, b"") for source in change.untidy])
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


def _pack_all(
    entries: Iterable[tuple[bytes, Mark | FailureRecord | Quarantined]],
    pack: Callable[[Any], bytes],
) -> list[tuple[bytes, bytes]]:
    return [(source, pack(entry)) for source, entry in entries]


def _move(
    txn: Transaction,
    rows: Sequence[tuple[bytes, bytes]],
    into: Any,  # noqa: ANN401 - lmdb's
    out_of: Iterable[Any],
) -> None:
    if not rows:
        return
    _put_all(txn, into, rows)
    sources = [source for source, _ in rows]
    for db in out_of:
        _delete_all(txn, db, sources)


def _put_all(
    txn: Transaction,
    db: Any,  # noqa: ANN401 - lmdb's
    rows: Iterable[tuple[bytes, bytes]],
) -> None:
    """Put rows in the order of their keys; of two under a key the last one stays."""
    txn.cursor(db).putmulti(sorted(rows, key=_get_source))


def _delete_all(txn: Transaction, db: Any, keys: Iterable[bytes]) -> None:  # noqa: ANN401 - lmdb's
    """Delete those of `keys` that there are."""
    # Most of these databases are empty for most of a run, and are asked for every source.
    if txn.stat(db)["entries"]:
        for key in keys:
            txn.delete(key, db=db)


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


def _change_index(
    txn: Transaction,
    db: Any,  # noqa: ANN401 - lmdb's
    finish: Sequence[Finish],
    gone: Sequence[bytes],
    attempt: int,
) -> None:
    """Put and remove entries; in the order of sources, on which the bytes of a row depend."""
    new_keys = [key_row(source) for source, _, _ in finish]
    gone_keys = [key_row(source) for source in gone]
    old = get_all(txn, db, dict.fromkeys((*new_keys, *gone_keys)))
    changed: dict[bytes, bytes] = {}
    for key, (source, version, _) in zip(new_keys, finish, strict=True):
        row = changed.get(key) or old.get(key, b"")
        changed[key] = put_entry(row, source, IndexEntry(version, attempt))
    for key, source in zip(gone_keys, gone, strict=True):
        row = changed[key] if key in changed else old.get(key, b"")
        rest = remove_entry(row, source)
        if rest is not row:  # most have never been finished
            changed[key] = rest
    _put_all(txn, db, [(key, row) for key, row in changed.items() if row])
    _delete_all(txn, db, [key for key, row in changed.items() if not row])
