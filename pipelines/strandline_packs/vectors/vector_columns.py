"""Columns of vectors: lists of 16-bit floats of a fixed size, and their values as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.data.tables.columns import find_column

Vectors = npt.NDArray[np.float32]


class VectorError(ValueError):
    """Raised if a column has no vectors, or vectors of different sizes."""


def build_column(vectors: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    """Return vectors as a column of 16-bit floats; each is scaled to length 1 first.

    Args:
        vectors: an array of shape (rows, values). A vector of length 0 has no direction and stays.
    """
    units = scale(vectors).astype(np.float16)
    return pa.FixedSizeListArray.from_arrays(pa.array(units.ravel()), max(1, units.shape[1]))


def scale(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return vectors of length 1, computed with 64-bit floats."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    exact /= np.where(lengths, lengths, 1)[:, None]
    return exact


def read_vectors(table: pa.Table, name: str) -> Vectors:
    """Return a column's vectors as 32-bit floats, of shape (rows, values).

    Lists of any size are accepted if all have the same size, as models behind servers write them.

    Raises:
        MissingColumnError: the column is missing.
        VectorError: a value is null or not finite, or sizes differ.
    """
    column = find_column(table, name).combine_chunks()
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)) or not _is_number(kind.value_type):
        msg = f"the column {name!r} must have lists of floats, and it has {kind}"
        raise VectorError(msg)
    if not len(column):
        return np.empty((0, 0), np.float32)
    sizes = np.unique(column.value_lengths().to_numpy(zero_copy_only=False))
    if column.null_count or len(sizes) != 1 or not sizes[0]:
        msg = f"the column {name!r} must have a vector of the same size in each row"
        raise VectorError(msg)
    values = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    if not np.isfinite(values).all():
        msg = f"the column {name!r} has a value that is null, NaN, or infinite"
        raise VectorError(msg)
    found: Vectors = values.reshape(len(column), int(sizes[0]))
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))
