"""Stores named summaries: as pieces of a stateful filter, and as files for readers.

The module joins and dumps summaries. The module must not depend on their content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.statistics.histogram import Histogram


class Summary(Protocol):
    """A value that can be gathered: joined with `+`, and dumped to a plain list."""

    def __add__(self, other: Self) -> Self: ...

    def dump(self) -> list[Any]:
        """Return a plain list, which can be parsed again."""
        ...


AnySummary = TypeVar("AnySummary", bound=Summary)
Parse = Callable[[list[Any]], AnySummary]

BINS = pa.list_(pa.struct([("low", pa.float64()), ("high", pa.float64()), ("count", pa.int64())]))


def gather(gathered: dict[str, AnySummary], name: str, summary: AnySummary) -> None:
    """Add a summary to the existing summary with the same name, if any."""
    gathered[name] = gathered[name] + summary if name in gathered else summary


def dump_piece(gathered: dict[str, AnySummary]) -> bytes | None:
    """Return all gathered summaries as one piece and clear them, or None if there are none."""
    if not gathered:
        return None
    piece = _dump(gathered)
    gathered.clear()
    return piece


def read_piece(path: Path, parse: Parse[AnySummary]) -> dict[str, AnySummary]:
    """Return the summaries in a file, by name."""
    dumped = msgpack.unpackb(path.read_bytes())
    return {name: parse(value) for name, value in dumped.items()}


def merge_pieces(paths: Sequence[Path], out: Path, parse: Parse[AnySummary]) -> None:
    """Join files of pieces into one file, summary by summary."""
    gathered: dict[str, AnySummary] = {}
    for path in paths:
        for name, summary in read_piece(path, parse).items():
            gather(gathered, name, summary)
    out.write_bytes(_dump(gathered))


def write_rows(
    folder: Path, name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema
) -> None:
    """Write rows as `<name>.json` and `<name>.parquet`."""
    text = json.dumps({"rows": rows}, ensure_ascii=False, indent=1, allow_nan=False)
    (folder / f"{name}.json").write_text(text + "\n", "utf-8")
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")


def read_rows(artifacts: Sequence[Path], name: str) -> list[dict[str, Any]]:
    """Return the rows of the file whose name ends with `<name>.json`; empty if it is missing."""
    for path in artifacts:
        if path.name.endswith(f"{name}.json"):
            rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["rows"]
            return rows
    return []


def list_bins(histogram: Histogram) -> list[dict[str, Any]]:
    """Return the bins as rows. An open end is None."""
    return [
        {
            "low": bin_.low if math.isfinite(bin_.low) else None,
            "high": bin_.high if math.isfinite(bin_.high) else None,
            "count": bin_.number,
        }
        for bin_ in histogram.list_bins()
    ]


def _dump(gathered: Mapping[str, AnySummary]) -> bytes:
    dumped = {name: gathered[name].dump() for name in sorted(gathered)}
    return bytes(msgpack.packb(dumped))
