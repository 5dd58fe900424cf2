"""Computes the weights of rows in a mixture (in rows, bytes, or tokens), and their strata.

The module handles tables. It must not depend on their location, or the amounts taken from them.
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
    """Unit of a mixture's budget."""

    ROWS = "rows"
    BYTES = "bytes"
    TOKENS = "tokens"


class Scales(NamedTuple):
    """Columns that determine the weights and strata of rows; None for an unused column.

    Attributes:
        stratum: column of strata, such as `language`.
        bytes: column with text or bytes; the length is the weight.
        tokens: column with token counts, or with lists of tokens.
    """

    stratum: str | None = None
    bytes: str | None = None
    tokens: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the weights and the strata require."""
        return tuple(name for name in self if name is not None)


def weigh_rows(table: pa.Table, scales: Scales, unit: MixUnit) -> Weights | None:
    """Return the weight of each row, or None if there is no column for the unit. A null weighs 0.

    Raises:
        MissingColumnError: the column is missing.
        TypeError: the column's values have no weight in the unit.
    """
    if unit is MixUnit.ROWS:
        return np.ones(table.num_rows, np.int64)
    name = scales.bytes if unit is MixUnit.BYTES else scales.tokens
    if name is None:
        return None
    column = find_column(table, name)
    kind = column.type
    # A column without any value has the type null.
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
        msg = f"the column {name!r} holds {kind}, so there are no {unit} to count"
        raise TypeError(msg)
    found: Weights = pc.fill_null(lengths, 0).cast(pa.int64()).to_numpy()
    if len(found) and found.min() < 0:
        msg = f"the column {name!r} holds numbers below 0, so there are no {unit} to count"
        raise TypeError(msg)
    return found


def list_strata(table: pa.Table, scales: Scales) -> list[str]:
    """Return the stratum of each row: an empty string if no column is set."""
    if scales.stratum is None:
        return [""] * table.num_rows
    return list_texts(table, scales.stratum)


Supply = dict[str, dict[MixUnit, int]]


def measure_supply(table: pa.Table, scales: Scales) -> Supply:
    """Return the amount of each stratum in each unit that has a column."""
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
