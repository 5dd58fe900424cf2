"""The ledger's rows as bytes of a file that other programs read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.cli.ledger_rows import Row

GROUP_ROWS = 10_000
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("state", pa.string()),
        ("version", pa.string()),
        ("attempt", pa.int64()),
        (
            "outputs",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("bytes", pa.int64()),
                        ("rows", pa.int64()),
                        ("digest", pa.string()),
                    ]
                )
            ),
        ),
        ("stage", pa.string()),
        ("message", pa.string()),
        ("times", pa.int64()),
        ("cause", pa.string()),
    ]
)


def write_jsonl(rows: Iterator[Row], target: BinaryIO) -> int:
    """Write one JSON object a line; returns how many."""
    count = 0
    for row in rows:
        target.write(json.dumps(row._asdict()).encode() + b"\n")
        count += 1
    return count


def write_parquet(rows: Iterator[Row], target: BinaryIO) -> int:
    """Write a Parquet file in row groups of ten thousand; returns how many rows."""
    count = 0
    with pq.ParquetWriter(target, _SCHEMA) as writer:
        while group := [row._asdict() for row in islice(rows, GROUP_ROWS)]:
            writer.write_table(pa.Table.from_pylist(group, schema=_SCHEMA))
            count += len(group)
    return count
