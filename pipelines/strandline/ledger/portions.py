"""What the ledger holds of gathered pieces, read a portion at a time.

Each portion is read in a transaction of its own, which somebody else holds, so that writing can go
on in between; what is written meanwhile is told by its generation.
"""

from __future__ import annotations

from itertools import islice

from strandline.ledger.changes import Databases, Transaction, get
from strandline.ledger.entries import read_pieces
from strandline.plan.receipt import Piece

PORTION = 1000
Portion = list[tuple[bytes, tuple[Piece, ...]]]


def read_portion(
    txn: Transaction, dbs: Databases, after: bytes, generation: int, *, is_whole: bool
) -> Portion:
    """The next sources in the order of their digests, each with its pieces.

    Args:
        txn, dbs: where to read.
        after: the last source of the portion before; empty before the first one.
        generation: pieces of later ones are left out.
        is_whole: all sources that are finished; else those that were not gathered yet.
    """
    cursor = txn.cursor(dbs.records if is_whole else dbs.ungathered)
    if not cursor.set_range(after + b"\0"):
        return []
    return [
        (source, _read_one(txn, dbs, source, generation))
        for source in islice(cursor.iternext(keys=True, values=False), PORTION)
    ]


def _read_one(
    txn: Transaction, dbs: Databases, source: bytes, generation: int
) -> tuple[Piece, ...]:
    new = get(txn, dbs.ungathered, source)
    record = get(txn, dbs.records, source)
    if record is None or (new is not None and int.from_bytes(new, "big") > generation):
        return ()
    return read_pieces(record)
