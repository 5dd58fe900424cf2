"""Reads the ledger's databases in portions.

Each portion has its own transaction, so that LMDB can reuse old pages in spite of a slow reader.
Readers may or may not see changes that are committed between two portions.
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
    """Consecutive keys and values, and the last key, after which the next portion begins."""

    rows: Rows
    last: bytes


def read_portion(
    txn: Transaction,
    db: Database,
    after: bytes,
) -> Portion | None:
    """Return the next rows of a database in key order, or None at the end.

    Args:
        after: last key of the previous portion; empty for the first portion.
    """
    cursor = txn.cursor(db)
    if not cursor.set_range(after + b"\0"):
        return None
    rows = list(islice(cursor.iternext(), PORTION))
    return Portion(rows, rows[-1][0])


def take_pieces(
    generation: int, *, is_whole: bool
) -> Callable[[Transaction, Databases, Layout, Rows], Iterable[tuple[bytes, tuple[Piece, ...]]]]:
    """Return a function that yields digest and pieces of each source in some rows.

    Args:
        generation: pieces of later generations are omitted.
        is_whole: True if the rows are from the index of all finished sources, False if they are
            from the database of sources that were not gathered yet.
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
    """Return True if a source was gathered, or its generation is not later than `generation`."""
    return packed is None or int.from_bytes(packed, "big") <= generation
