"""Decides which vectors of a cluster are so similar to an earlier vector that they can go.

The rule is that of SemDeDup: in an order of the cluster, a vector goes if the cosine with any
earlier vector reaches the threshold. This module takes arrays and does no I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strandline_packs.vectors.vector_columns import scale

_BLOCK = 1024  # rows whose products are in memory together
# 32-bit products of vectors with length 1 differ from exact products by less than this.
_MARGIN = 1e-4


class KeepRule(StrEnum):
    """Order of a cluster, which decides the vector that stays among similar vectors."""

    HARDEST = "hardest"
    EASIEST = "easiest"
    FIRST = "first"


class SimilarRows(NamedTuple):
    """The rows that go.

    Attributes:
        rows: indices of the rows.
        stays: for each, the index of a row that stays: the end of the chain of most similar rows.
        cosines: for each, the greatest cosine with an earlier row.
    """

    rows: npt.NDArray[np.int64]
    stays: npt.NDArray[np.int64]
    cosines: npt.NDArray[np.float64]


def order_rows(
    keys: npt.NDArray[np.object_], closeness: npt.NDArray[np.float64], rule: KeepRule
) -> npt.NDArray[np.int64]:
    """Return the order of a cluster's rows, independent of the order in which they arrive.

    Args:
        keys: key of each row, as text; orders rows with equal closeness.
        closeness: cosine of each row with the center of its cluster.
    """
    if rule is KeepRule.FIRST:
        return np.argsort(keys, kind="stable")
    sign = 1 if rule is KeepRule.HARDEST else -1
    return np.lexsort((keys, sign * closeness))


def find_similar(
    vectors: npt.NDArray[np.floating], order: npt.NDArray[np.int64], threshold: float
) -> SimilarRows:
    """Return the rows whose cosine with an earlier row of the order is at least the threshold.

    Products are computed with 32-bit floats, and near the threshold again with 64 bits, so the
    result does not depend on the sizes of blocks or the number of threads.

    Args:
        vectors: the vectors of a cluster, of shape (rows, values).
        threshold: minimum cosine.
    """
    units = scale(vectors[order])
    short = units.astype(np.float32)
    best = np.full(len(order), -1, np.int64)
    cosines = np.full(len(order), -np.inf)
    for start in range(0, len(order), _BLOCK):
        _compare_block(units, short, slice(start, start + _BLOCK), threshold, best, cosines)
    gone = np.flatnonzero(best >= 0)
    return SimilarRows(order[gone], order[_follow(best, gone)], cosines[gone])


def _compare_block(
    units: npt.NDArray[np.float64],
    short: npt.NDArray[np.float32],
    block: slice,
    threshold: float,
    best: npt.NDArray[np.int64],
    cosines: npt.NDArray[np.float64],
) -> None:
    """Compare the rows of a block with all earlier rows, and store the most similar of them."""
    for start in range(0, block.stop, _BLOCK):
        others = slice(start, min(start + _BLOCK, len(units)))
        products = short[block] @ short[others].T
        rows, columns = np.nonzero(products >= threshold - _MARGIN)
        rows, columns = rows + block.start, columns + start
        is_earlier = columns < rows
        rows, columns = rows[is_earlier], columns[is_earlier]
        if len(rows):
            exact = _multiply(units, rows, columns)
            is_similar = exact >= threshold
            _store_best(rows[is_similar], columns[is_similar], exact[is_similar], best, cosines)


def _multiply(
    units: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the exact cosines of pairs of rows, with bounded memory."""
    starts = range(0, len(rows), _BLOCK)
    parts = [(rows[at : at + _BLOCK], columns[at : at + _BLOCK]) for at in starts]
    return np.concatenate(
        [np.einsum("ij,ij->i", units[first], units[second]) for first, second in parts]
    )


def _store_best(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    exact: npt.NDArray[np.float64],
    best: npt.NDArray[np.int64],
    cosines: npt.NDArray[np.float64],
) -> None:
    """Store the most similar earlier row of each row; of equally similar rows, the earliest."""
    if not len(rows):
        return
    ranks = np.lexsort((columns, -exact, rows))
    rows, columns, exact = rows[ranks], columns[ranks], exact[ranks]
    firsts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    rows, columns, exact = rows[firsts], columns[firsts], exact[firsts]
    # Blocks of earlier rows come first, so an equal cosine of a later block does not count.
    is_better = exact > cosines[rows]
    best[rows[is_better]] = columns[is_better]
    cosines[rows[is_better]] = exact[is_better]


def _follow(best: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the end of each row's chain of most similar earlier rows, which stays."""
    ends = np.arange(len(best))
    for row in np.flatnonzero(best >= 0):  # a chain leads to earlier rows, whose ends are known
        ends[row] = ends[best[row]]
    return ends[rows]
