"""Buckets: rows in the same bucket may be duplicates of each other.

This module takes keys and bytes, returns tables, and does no I/O. The module must not depend on the
content or the readers of buckets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.data.tables.columns import find_column
from strandline.plan.stages.columns import Columns
from strandline_packs.dedup.key_lists import DIGEST_BYTES, digest_bytes

DIGEST = pa.binary(DIGEST_BYTES)
# `source` is null except in the rows of `mark_keys`, which reveal two rows with the same key.
BUCKETS = pa.schema(
    [("key", pa.string()), ("id", DIGEST), ("bucket", DIGEST), ("source", pa.string())]
)
# Prefix that separates the buckets of keys from the buckets of contents.
_OF_KEYS = b"key\0"

Digests = npt.NDArray[np.bytes_]


def build_buckets(keys: Sequence[str], buckets: Sequence[Sequence[bytes]]) -> pa.Table:
    """Return a row with `key`, `id`, and `bucket` for every bucket of every key.

    The id is a digest of the key and all its buckets, so a changed row has another id. `source` is
    null; see `mark_keys`.

    Args:
        keys: keys of the rows.
        buckets: the buckets of each key.
    """
    counts = pa.array(np.repeat(np.arange(len(keys)), [len(found) for found in buckets]))
    ids = pa.array(map(_digest_row, keys, buckets), DIGEST)
    flat = pa.array([bucket for found in buckets for bucket in found], DIGEST)
    return pa.Table.from_arrays(
        [
            pa.array(keys, pa.string()).take(counts),
            ids.take(counts),
            flat,
            pa.nulls(len(flat), pa.string()),
        ],
        schema=BUCKETS,
    )


def mark_keys(keys: Sequence[str], source: str) -> pa.Table:
    """Return a row for each key, in a bucket that only rows with this key share.

    Two rows with the same key therefore always meet in a bucket, and `link_rows` reports the error.
    Without these rows, only similar texts with the same key would meet. The drop list would then
    drop a unique text that happens to share a dropped key.

    Args:
        keys: keys of the rows.
        source: source of the rows, for messages.
    """
    digests = [digest_bytes(key.encode()) for key in keys]
    buckets = [digest_bytes(_OF_KEYS + digest) for digest in digests]
    arrays = [
        pa.array(keys, pa.string()),
        pa.array(digests, DIGEST),
        pa.array(buckets, DIGEST),
        pa.array([source] * len(keys), pa.string()),
    ]
    return pa.Table.from_arrays(arrays, schema=BUCKETS)


def read_digests(table: pa.Table, name: str) -> Digests:
    """Return a column of digests.

    Raises:
        MissingColumnError: the column is missing.
        TypeError: the column has another type.
    """
    column = find_column(table, name)
    if column.type != DIGEST:
        msg = f"the column {name!r} holds {column.type}, not digests of {DIGEST_BYTES} bytes"
        raise TypeError(msg)
    # Copy each chunk separately, because chunks of a slice may share a buffer.
    chunks = [_view(chunk) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, f"S{DIGEST_BYTES}")


def columns_of(schema: pa.Schema) -> Columns:
    """Return the column declaration for a stage that returns tables of this schema."""
    return Columns(tuple(schema.names))


def _digest_row(key: str, buckets: Sequence[bytes]) -> bytes:
    # Prefix the count: otherwise the bytes of a bucket could pass for the start of a key.
    return digest_bytes(len(buckets).to_bytes(4, "big") + b"".join(buckets) + key.encode())


def _view(chunk: pa.FixedSizeBinaryArray) -> Digests:
    kind = f"S{DIGEST_BYTES}"
    if not len(chunk):
        return np.empty(0, kind)
    return np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)]
