"""Rows that are read one by one, cut into batches that are bounded in number and in bytes.

It knows sizes, nothing of what a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Row = TypeVar("Row")


def cut_batches(
    rows: Iterable[Row], measure: Callable[[Row], int], most: int, most_bytes: int
) -> Iterator[list[Row]]:
    """Yield rows in their order in lists of at most `most`, each as soon as it is full.

    Args:
        measure: returns the bytes of a row.
        most_bytes: with which a list is full; its last row may go beyond.
    """
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += measure(row)
        if len(batch) >= most or size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
