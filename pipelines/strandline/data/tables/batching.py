"""Cuts rows into batches that are limited in rows and in bytes.

The module uses only sizes, and must not depend on the type of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Row = TypeVar("Row")


def cut_batches(
    rows: Iterable[Row], measure: Callable[[Row], int], most: int, most_bytes: int
) -> Iterator[list[Row]]:
    """Yield rows in order, in lists of at most `most` rows. Each list is yielded once it is full.

    Args:
        measure: returns the size of a row in bytes.
        most_bytes: size at which a list is full. The last row of a list may exceed the size.
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
