"""The ledger's databases, read a portion at a time.

Each portion is read in a transaction of its own, which somebody else holds, so that nobody who is
slow with what he reads keeps old pages from being used again. What is written in between may be
seen or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from strandline.ledger.entries import read_pieces
from strandline.ledger.store.changes import find_packed, get
from strandline.ledger.store.layout import Database, Databases, Layout, Rows, Transaction
from strandline.plan.receipt import Piece

PORTION = 1000
T = TypeVar("T")


class Portion(NamedTuple):
    """Keys and values that follow each other, and the key after which the next portion begins."""

    rows: Rows
    last: bytes


def read_portion(
    txn: Transaction,
    db: Database,
    after: bytes,
) -> Portion | None:
    """Return the next rows of a database in the order of their keys; None at its end.

    Args:
        after: the last key of the portion before; empty before the first one.
    """
    cursor = txn.cursor(db)
    if not cursor.set_range(after + b"\0"):
        return None
    rows = list(islice(cursor.iternext(), PORTION))
    return Portion(rows, rows[-1][0])


def take_pieces(
    generation: int, *, is_whole: bool
) -> Callable[[Transaction, Databases, Layout, Rows], Iterable[tuple[bytes, tuple[Piece, ...]]]]:
    """Return what makes of rows the pieces of sources that have some, by their digests.

    Args:
        generation: pieces of later ones are left out.
        is_whole: the rows are those of the index; else they are those of sources that were not
            gathered yet.
    """

    def take(
        txn: Transaction, dbs: Databases, layout: Layout, rows: Rows
    ) -> Iterable[tuple[bytes, tuple[Piece, ...]]]:
        if is_whole:
            digests = sorted(digest for digest, _ in layout.rows.list_entries(rows))
        else:
            digests = [digest for digest, _ in rows]
        for source, _, packed in find_packed(txn, dbs, layout, digests):
            new = get(txn, dbs.ungathered, source)
            if new is not None and int.from_bytes(new, "big") > generation:
                continue
            if pieces := read_pieces(packed):
                yield source, pieces

    return take
