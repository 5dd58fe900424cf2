"""Packs many small files into a fixed number of sources, by a digest of their keys.

Adding or changing one file changes only one bucket. The listing is stored in a temporary database,
so only one bucket is in memory at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby

import pyarrow as pa

from strandline.data.files.listed import ListedFile
from strandline.plan.stages.ends import Source
from strandline.storage.outputs.disk.temporary import spooling

FILE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("mtime_ns", pa.int64()),
    ]
)


def find_bucket(key: str, buckets: int) -> int:
    """Return the bucket of a key: its digest modulo the number of buckets."""
    digest = blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets


def build_file_table(entries: Iterable[ListedFile]) -> pa.Table:
    """Return one row per file: key, path, size (bytes), mtime_ns."""
    # Keep the first four fields, which are the columns. The version of each file is part of the
    # source's version instead.
    rows = [entry[:4] for entry in entries]
    columns = zip(*rows, strict=True) if rows else ([] for _ in FILE_SCHEMA)
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, FILE_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=FILE_SCHEMA)


def pack_buckets(entries: Iterable[ListedFile], buckets: int) -> Iterator[Source]:
    """Yield one source per nonempty bucket, in order. Files in a bucket are sorted by key."""
    with spooling("files (bucket INT, key, path, size INT, mtime INT, version)") as spool:
        _fill(spool, entries, buckets)
        rows = spool.execute("SELECT * FROM files ORDER BY bucket, key")
        for bucket, members in groupby(rows, key=lambda row: row[0]):
            files = [ListedFile(*row[1:]) for row in members]
            yield _create_source(bucket, buckets, files)


def digest_members(members: Iterable[ListedFile | Source]) -> str:
    """Return the version of a bucket: a digest of all keys and versions, in the given order."""
    state = blake2b(digest_size=16)
    for entry in members:
        # Separate key and version with NUL, which no file name contains, so the result is
        # unambiguous.
        state.update(f"{entry.key}\0{entry.version}\n".encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _fill(spool: sqlite3.Connection, entries: Iterable[ListedFile], buckets: int) -> None:
    # Use one transaction; otherwise SQLite would commit every row separately.
    spool.execute("BEGIN")
    spool.executemany(
        "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)",
        ((find_bucket(entry.key, buckets), *entry[:5]) for entry in entries),
    )
    spool.execute("COMMIT")


def _create_source(bucket: int, buckets: int, members: list[ListedFile]) -> Source:
    key = f"bucket/{bucket:05d}-of-{buckets:05d}"
    return Source(key, digest_members(members), build_file_table(members))
