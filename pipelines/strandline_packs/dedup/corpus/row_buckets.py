"""Rows that share a bucket may be duplicates of each other: how passes over a corpus tell so.

Pure: keys and bytes in, tables out. It does not know what a bucket was made of, nor what reads it.
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
# `source` is there in the rows alone that stand for a key, by which two of one key meet.
BUCKETS = pa.schema(
    [("key", pa.string()), ("id", DIGEST), ("bucket", DIGEST), ("source", pa.string())]
)
_OF_KEYS = b"key\0"

Digests = npt.NDArray[np.bytes_]


def build_buckets(keys: Sequence[str], buckets: Sequence[Sequence[bytes]]) -> pa.Table:
    """Return a row for each bucket that a key is in: `key`, `id`, `bucket`.

    The id is of the key and of all its buckets, so that a row which is changed has another one. Its
    `source` is null; see `mark_keys`.

    Args:
        keys: of the rows.
        buckets: of each key, as many as it is in.
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
    """Return a row for each key, in a bucket of its own: two rows of a corpus with one key meet.

    Otherwise they would meet only where their texts are alike, and the list of what goes would drop
    a text that is like no other.

    Args:
        keys: of the rows.
        source: that they are from, for messages.
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


def _digest_row(key: str, buckets: Sequence[bytes]) -> bytes:
    return digest_bytes(len(buckets).to_bytes(4, "big") + b"".join(buckets) + key.encode())


def _view(chunk: pa.FixedSizeBinaryArray) -> Digests:
    kind = f"S{DIGEST_BYTES}"
    if not len(chunk):
        return np.empty(0, kind)
    return np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)]
