"""Rows that stages would have dropped and have marked instead: how many, why, and some of each.

Which of them are shown follows from their keys, so the same outputs show the same. It must not know
how they are printed, nor what wrote the files.
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
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan

_KEYS = ("key", "clip", "url", "id")
_TEXTS = ("text", "content", "url", "path")
_SNIPPET = 200  # characters of a text
_ROWS = 10_000  # that are in memory at a time


class NoReasonsError(StrandlineError):
    """Nothing here reads what the sink wrote."""


class MarkedRow(NamedTuple):
    """One row.

    Attributes:
        key: what it is called; empty where it has no such column.
        text: how it begins; empty where it has none.
    """

    key: str
    text: str


@dataclass(slots=True)
class MarkedRows:
    """Rows of one reason.

    Attributes:
        count: how many there are.
    """

    most: int
    count: int = 0
    _chosen: list[tuple[int, MarkedRow]] = field(default_factory=list)

    def add(self, row: MarkedRow, position: str) -> None:
        """Take a row; `position` tells rows of one key apart."""
        self.count += 1
        digest = blake2b(
            f"{row.key}\0{position}".encode("utf-8", "replace"), digest_size=8
        ).digest()
        item = (-int.from_bytes(digest, "big"), row)
        if len(self._chosen) < self.most:
            heapq.heappush(self._chosen, item)
        elif self.most:
            heapq.heappushpop(self._chosen, item)

    @property
    def examples(self) -> tuple[MarkedRow, ...]:
        """Some of them, by their keys."""
        return tuple(sorted(row for _, row in self._chosen))


def find_reason_columns(plan: PipelinePlan) -> tuple[str, ...]:
    """Return the columns in which stages say why they would have dropped a row."""
    named = (getattr(stage.stage.params, "reason_column", None) for stage in plan.stages)
    return tuple(dict.fromkeys(name for name in named if name))


def gather_marked(
    location: str, names: Iterable[str], columns: Sequence[str], most: int
) -> Mapping[str, MarkedRows]:
    """Return the marked rows of output files by their reason, those with the most rows first.

    Args:
        location: folder or URL of the outputs.
        names: of files, below it.
        columns: of reasons; the first that has one tells a row's.
        most: rows of a reason that are kept as examples.

    Raises:
        NoReasonsError: nothing here reads such files.
        OSError: one can't be read.
    """
    found: dict[str, MarkedRows] = {}
    for name in names if columns else ():
        path, start = f"{location.rstrip('/')}/{name}", 0
        for rows in read_rows(path, {*columns, *_KEYS, *_TEXTS}):
            for at, row in enumerate(rows, start):
                reason = next((str(row[each]) for each in columns if row.get(each)), None)
                if reason is not None:
                    marked = found.setdefault(reason, MarkedRows(most))
                    marked.add(_describe(row), f"{name}\0{at}")
            start += len(rows)
    return dict(sorted(found.items(), key=lambda item: (-item[1].count, item[0])))


def read_rows(path: str, wanted: Collection[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows of an output, with no more columns than are wanted where it can be read so.

    Raises:
        NoReasonsError: nothing here reads such files.
        OSError: it can't be read.
    """
    if path.endswith(".parquet"):
        with open_binary(path) as file:
            parquet = pq.ParquetFile(file)
            shown = [name for name in parquet.schema_arrow.names if name in wanted]
            for batch in parquet.iter_batches(_ROWS, columns=shown):
                yield pa.Table.from_batches([batch]).to_pylist()
        return
    if not path.endswith(".jsonl"):
        raise NoReasonsError(f"{path}: only Parquet files and JSON Lines are looked into")
    with open_binary(path) as file:
        rows: list[dict[str, Any]] = []
        for line in file:
            rows.append(json.loads(line))
            if len(rows) == _ROWS:
                yield rows
                rows = []
        yield rows


def _describe(row: Mapping[str, Any]) -> MarkedRow:
    key = next((str(row[name]) for name in _KEYS if row.get(name) is not None), "")
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), "")
    return MarkedRow(key, " ".join(text[:_SNIPPET].split()))
