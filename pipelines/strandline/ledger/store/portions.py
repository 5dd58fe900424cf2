"""The ledger's databases, read a portion at a time.

Each portion is read in a transaction of its own, which the store holds, so that a slow reader does
not keep old pages from being used again. What is written in between may be seen or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from strandline.ledger.records.packing import read_pieces
from strandline.ledger.store.changes import find_packed, get, read_packed
from strandline.ledger.store.environment.layout import (
    Database,
    Databases,
    Layout,
    Rows,
    Transaction,
)
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
            found = sorted(layout.rows.list_entries(rows))
            packed = ((each, read_packed(txn, dbs, layout, each, entry)) for each, entry in found)
        else:
            sources = (source for source, _ in rows)
            packed = ((each, record) for each, _, record in find_packed(txn, dbs, layout, sources))
        for source, record in packed:
            pieces = read_pieces(record) if record is not None else ()
            if pieces and _is_up_to(get(txn, dbs.ungathered, source), generation):
                yield source, pieces

    return take


def _is_up_to(packed: bytes | None, generation: int) -> bool:
    """Return whether a source belongs to a generation or to one before, as gathered ones do."""
    return packed is None or int.from_bytes(packed, "big") <= generation
