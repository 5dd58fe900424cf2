"""Counts rows that stages marked instead of dropping them, by reason, and chooses examples.

The choice of examples depends only on keys, so the same outputs always give the same examples. This
module must not depend on the presentation of rows, or on the writer of the files.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.data.tables.columns import ROW_KEYS
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan

_TEXTS = ("text", "content", "url", "path")
_SNIPPET = 200  # maximum number of characters of an example
_ROWS = 10_000  # number of rows in memory at a time


class NoReasonsError(StrandlineError):
    """Raised if no reader exists for the sink's format."""


class MarkedRow(NamedTuple):
    """A row that a stage has marked.

    Attributes:
        key: value that identifies the row, or empty if there is no such column.
        text: beginning of the text, or empty if there is no text.
    """

    key: str
    text: str


@dataclass(slots=True)
class MarkedRows:
    """Rows with the same reason.

    Attributes:
        most: maximum number of examples.
        count: number of rows.
    """

    most: int
    count: int = 0
    _chosen: list[tuple[int, MarkedRow]] = field(default_factory=list)

    def add(self, row: MarkedRow, position: str) -> None:
        """Add a row. `position` distinguishes rows with the same key."""
        self.count += 1
        digest = blake2b(
            f"{row.key}\0{position}".encode("utf-8", "replace"), digest_size=8
        ).digest()
        # Negate the digest, so that the heap drops the row with the largest digest first.
        item = (-int.from_bytes(digest, "big"), row)
        if len(self._chosen) < self.most:
            heapq.heappush(self._chosen, item)
        elif self.most:
            heapq.heappushpop(self._chosen, item)

    @property
    def examples(self) -> tuple[MarkedRow, ...]:
        """Example rows, chosen by their keys."""
        return tuple(sorted(row for _, row in self._chosen))


def find_reason_columns(plan: PipelinePlan) -> tuple[str, ...]:
    """Return the columns in which stages record why they would have dropped a row."""
    named = (getattr(stage.stage.params, "reason_column", None) for stage in plan.stages)
    return tuple(dict.fromkeys(name for name in named if name))


def gather_marked(
    location: str, names: Iterable[str], columns: Sequence[str], most: int
) -> Mapping[str, MarkedRows]:
    """Return the marked rows of output files by reason, the most frequent first.

    Args:
        location: folder or URL of the outputs.
        names: names of the files below that location.
        columns: columns of reasons; the first column with a value counts.
        most: maximum number of example rows per reason.

    Raises:
        NoReasonsError: if no reader exists for the files' format.
        OSError: if a file can't be read.
    """
    found: dict[str, MarkedRows] = {}
    for name in names if columns else ():
        path, start = f"{location.rstrip('/')}/{name}", 0
        for rows in read_rows(path, {*columns, *ROW_KEYS, *_TEXTS}):
            for at, row in enumerate(rows, start):
                reason = next((str(row[each]) for each in columns if row.get(each)), None)
                if reason is not None:
                    marked = found.setdefault(reason, MarkedRows(most))
                    marked.add(_describe(row), f"{name}\0{at}")
            start += len(rows)
    return dict(sorted(found.items(), key=lambda item: (-item[1].count, item[0])))


def read_rows(path: str, wanted: Collection[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows of an output file, with only the wanted columns if the format permits this.

    Raises:
        NoReasonsError: if no reader exists for the format.
        OSError: if the output can't be read.
    """
    if path.endswith(".parquet"):
        with open_binary(path) as file:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            shown = [name for name in parquet.schema_arrow.names if name in wanted]
            for batch in parquet.iter_batches(_ROWS, columns=shown):
                yield pa.Table.from_batches([batch]).to_pylist()
        return
    if not path.endswith(".jsonl"):
        raise NoReasonsError(f"{path}: only Parquet and JSON Lines files are supported")
    with open_binary(path) as file:
        rows: list[dict[str, Any]] = []
        for line in file:
            rows.append(json.loads(line))
            if len(rows) == _ROWS:
                yield rows
                rows = []
        yield rows


def _describe(row: Mapping[str, Any]) -> MarkedRow:
    key = next((str(row[name]) for name in ROW_KEYS if row.get(name) is not None), "")
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), "")
    return MarkedRow(key, " ".join(text[:_SNIPPET].split()))
