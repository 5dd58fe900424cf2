"""Writes the rows of a ledger to files for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.ledger.records.entries import Row, SourceEffort

# Number of rows in memory at a time, because a ledger can have millions of sources.
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
_METRICS = pa.schema(
    [
        ("key", pa.string()),
        ("attempt", pa.int64()),
        ("stage", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("seconds", pa.float64()),
        ("bytes", pa.int64()),
    ]
)


def write_jsonl(rows: Iterator[Row], target: BinaryIO) -> int:
    """Write one JSON object per line, and return the number of objects."""
    count = 0
    for row in rows:
        target.write(json.dumps(row._asdict()).encode() + b"\n")
        count += 1
    return count


def write_parquet(rows: Iterator[Row], target: BinaryIO) -> int:
    """Write a Parquet file in row groups of ten thousand rows, and return the number of rows."""
    return _write(map(Row._asdict, rows), target, _SCHEMA)


def write_metrics(efforts: Iterable[SourceEffort], target: BinaryIO) -> int:
    """Write each stage's metrics for each source as a Parquet file; return the number of rows."""
    return _write(
        (dict(zip(_METRICS.names, row, strict=True)) for row in efforts), target, _METRICS
    )


def _write(rows: Iterable[dict[str, Any]], target: BinaryIO, schema: pa.Schema) -> int:
    count, left = 0, iter(rows)
    with pq.ParquetWriter(target, schema) as writer:
        while group := list(islice(left, GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count
