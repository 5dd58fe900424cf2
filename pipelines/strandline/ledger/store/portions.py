"""The ledger's databases, read a portion at a time.

Each portion is read in a transaction of its own, which somebody else holds, so that nobody who is
slow with what he reads keeps old pages from being used again. What is written in between may be
seen or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from strandline.ledger.entries import read_pieces
from strandline.ledger.store.changes import Databases, Transaction, get
from strandline.plan.receipt import Piece

PORTION = 1000
T = TypeVar("T")


class Portion(NamedTuple):
    """Keys and values that follow each other, and the key after which the next portion begins."""

    rows: list[tuple[bytes, bytes]]
    last: bytes


def read_portion(
    txn: Transaction,
    db: Any,  # noqa: ANN401 - lmdb's
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
) -> Callable[[Transaction, Databases, bytes, bytes], Iterable[tuple[bytes, tuple[Piece, ...]]]]:
    """Return what makes of a row the pieces of its source, none where that has none.

    Args:
        generation: pieces of later ones are left out.
        is_whole: the rows are records, of sources that are finished; else they are those of
            sources that were not gathered yet.
    """

    def take(
        txn: Transaction, dbs: Databases, source: bytes, row: bytes
    ) -> Iterable[tuple[bytes, tuple[Piece, ...]]]:
        record = row if is_whole else get(txn, dbs.records, source)
        new = get(txn, dbs.ungathered, source) if is_whole else row
        if record is None or (new is not None and int.from_bytes(new, "big") > generation):
            return
        if pieces := read_pieces(record):
            yield source, pieces

    return take
