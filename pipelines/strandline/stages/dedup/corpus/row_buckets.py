"""Rows that share a bucket may be duplicates of each other: how passes over a corpus tell so.

Pure: keys and bytes in, tables out. It does not know what a bucket was made of, nor who reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.plan.columns import Columns
from strandline.stages.columns import find_column
from strandline.stages.dedup.key_lists import DIGEST_BYTES, digest_bytes

DIGEST = pa.binary(DIGEST_BYTES)
BUCKETS = pa.schema([("key", pa.string()), ("id", DIGEST), ("bucket", DIGEST)])

Digests = npt.NDArray[np.bytes_]


def build_buckets(keys: Sequence[str], buckets: Sequence[Sequence[bytes]]) -> pa.Table:
    """Return a row for each bucket that a key is in: `key`, `id` (its digest), `bucket`.

    Args:
        keys: of the rows.
        buckets: of each key, as many as it is in.
    """
    counts = pa.array(np.repeat(np.arange(len(keys)), [len(found) for found in buckets]))
    ids = pa.array([digest_bytes(key.encode()) for key in keys], DIGEST)
    flat = pa.array([bucket for found in buckets for bucket in found], DIGEST)
    return pa.Table.from_arrays(
        [pa.array(keys, pa.string()).take(counts), ids.take(counts), flat], schema=BUCKETS
    )


def read_digests(table: pa.Table, name: str) -> Digests:
    """Return a column of digests.

    Raises:
        MissingColumnError: there is no such column.
        TypeError: it holds something else.
    """
    column = find_column(table, name)
    if column.type != DIGEST:
        msg = f"the column {name!r} holds {column.type}, not digests of {DIGEST_BYTES} bytes"
        raise TypeError(msg)
    # Chunks of a slice may share a buffer, so each is cut out of its own.
    chunks = [_view(chunk) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, f"S{DIGEST_BYTES}")


def columns_of(schema: pa.Schema) -> Columns:
    """Return what a stage declares that gives tables of this schema."""
    return Columns(tuple(schema.names))


def _view(chunk: pa.FixedSizeBinaryArray) -> Digests:
    kind = f"S{DIGEST_BYTES}"
    if not len(chunk):
        return np.empty(0, kind)
    return np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)]
