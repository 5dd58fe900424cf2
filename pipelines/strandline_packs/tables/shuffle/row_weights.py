"""How much rows count for in a mixture, by themselves, by bytes or by tokens, and of which stratum.

It knows tables. It must not know where they are kept, nor how much of them is taken.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.data.tables.columns import find_column, list_texts

Weights = npt.NDArray[np.int64]


class MixUnit(StrEnum):
    """What is counted of rows."""

    ROWS = "rows"
    BYTES = "bytes"
    TOKENS = "tokens"


class Scales(NamedTuple):
    """Columns by which rows are weighed; None: they are not.

    Attributes:
        stratum: with what they are part of, such as `language`.
        bytes: with text or bytes, whose length counts.
        tokens: with their number, or with a list of them.
    """

    stratum: str | None = None
    bytes: str | None = None
    tokens: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that have to be there."""
        return tuple(name for name in self if name is not None)


def weigh_rows(table: pa.Table, scales: Scales, unit: MixUnit) -> Weights | None:
    """Return the weight of each row; None where no column tells it. A null weighs nothing.

    Raises:
        MissingColumnError: there is no such column.
        TypeError: it holds nothing that has such a weight.
    """
    if unit is MixUnit.ROWS:
        return np.ones(table.num_rows, np.int64)
    name = scales.bytes if unit is MixUnit.BYTES else scales.tokens
    if name is None:
        return None
    column = find_column(table, name)
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(table.num_rows, np.int64)
    if unit is MixUnit.BYTES:
        is_right = _holds_bytes(kind)
        lengths = pc.binary_length(column) if is_right else None
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.list_value_length(column)
    else:
        lengths = column if pa.types.is_integer(kind) else None
    if lengths is None:
        msg = f"the column {name!r} holds {kind}, of which no {unit} can be counted"
        raise TypeError(msg)
    found: Weights = pc.fill_null(lengths, 0).cast(pa.int64()).to_numpy()
    if len(found) and found.min() < 0:
        msg = f"the column {name!r} holds numbers below 0, of which no {unit} can be counted"
        raise TypeError(msg)
    return found


def list_strata(table: pa.Table, scales: Scales) -> list[str]:
    """Return what each row is part of; all of the empty text where no column tells it."""
    if scales.stratum is None:
        return [""] * table.num_rows
    return list_texts(table, scales.stratum)


Supply = dict[str, dict[MixUnit, int]]


def measure_supply(table: pa.Table, scales: Scales) -> Supply:
    """Return how much of each stratum there is, in each unit that can be counted."""
    found: Supply = {}
    strata = list_strata(table, scales)
    for unit in MixUnit:
        weights = weigh_rows(table, scales, unit)
        if weights is None:
            continue
        sums = Counter[str]()
        for stratum, weight in zip(strata, weights.tolist(), strict=True):
            sums[stratum] += weight
        for stratum in strata:
            found.setdefault(stratum, {})[unit] = sums[stratum]
    return found


def _holds_bytes(kind: pa.DataType) -> bool:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(is_binary or pa.types.is_string(kind) or pa.types.is_large_string(kind))
