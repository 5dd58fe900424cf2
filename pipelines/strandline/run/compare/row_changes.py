"""Compares the rows of two data sets by key, in bounded memory.

Rows are digested while they are read. A temporary database holds one entry of about 50 bytes for
each row, and sorts the entries on disk. Only sample rows are read a second time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from strandline.run.compare.output_rows import Row, read_rows
from strandline.storage.outputs.disk.temporary import spooling

KINDS = ("changed", "added", "removed")
_ROW_BITS = 36  # bits of a position for the row's offset in a file; the other bits number the file
_CACHE = "PRAGMA cache_size = -65536"  # KiB of memory for sorting, before entries go to disk
_WIDTH = 60  # maximum number of characters of a displayed value
_LEAD = 12  # number of characters to show before the first difference
_PLAIN = frozenset({bool, bytes, int, str})  # types whose values have one form in all formats
_PAIR = [(0, 1), (1, 0)]  # numbers of rows in A and in B, for a key with one row on each side
_QUERY = """
    SELECT key, row, SUM(side = 0), SUM(side = 1),
           MAX(CASE side WHEN 0 THEN position END), MAX(CASE side WHEN 1 THEN position END)
    FROM rows GROUP BY key IS NULL, key, row
"""

_Positions = tuple[int | None, int | None]  # of a row in A and in B
_Entry = tuple[bytes | None, bytes, int, int, int | None, int | None]


class ColumnChange(NamedTuple):
    """A column of a sample row, as short text; None on a side without a value."""

    column: str
    a: str | None
    b: str | None


class SampleRow(NamedTuple):
    """A row that differs, with the columns that differ."""

    key: str
    columns: tuple[ColumnChange, ...]


@dataclass(slots=True)
class RowComparison:
    """Differences between the rows of two data sets. Pairs hold the numbers of A and of B.

    Rows are matched by their key. Rows with a null key, or with a key that a side has several
    times, are matched only with equal rows, so they are never `changed`.

    Attributes:
        key: name of the key column.
        read, null_keys: numbers of rows, and of rows without a key.
        repeated_keys: numbers of keys that a side has several times.
        counts: numbers of rows by kind, and of `equal` rows.
        columns: names of the columns with a value.
        samples: sample rows by kind; the choice depends only on keys and rows.
    """

    key: str
    read: list[int] = field(default_factory=lambda: [0, 0])
    null_keys: list[int] = field(default_factory=lambda: [0, 0])
    repeated_keys: list[int] = field(default_factory=lambda: [0, 0])
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("equal", *KINDS), 0))
    columns: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    samples: Mapping[str, Sequence[SampleRow]] = field(default_factory=dict)

    @property
    def is_different(self) -> bool:
        """Return True if a row was added, removed, or changed."""
        return any(self.counts[kind] for kind in KINDS)


def compare_rows(a: Iterable[str], b: Iterable[str], key: str, most: int) -> RowComparison:
    """Compare the rows of two sets of files.

    Args:
        a, b: paths or URLs of files with a supported suffix.
        key: column that identifies a row.
        most: maximum number of sample rows of each kind.

    Raises:
        UnreadableRowsError: a file can't be read.
    """
    found = RowComparison(key)
    positions: dict[str, list[_Positions]] = {kind: [] for kind in KINDS}
    with spooling("rows (side, key, row, position)") as spool:
        spool.execute(_CACHE)
        spool.execute("CREATE TABLE files (number INTEGER PRIMARY KEY, path)")
        spool.execute("BEGIN")
        for side, paths in enumerate((a, b)):
            entries = _list_entries(spool, side, paths, found)
            spool.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", entries)
        spool.execute("COMMIT")
        for digest, group in groupby(spool.execute(_QUERY), key=itemgetter(0)):
            for kind, pair in _count_key(digest, group, found):
                if len(positions[kind]) < most:
                    positions[kind].append(pair)
        found.samples = _read_samples(spool, key, positions)
    return found


def _list_entries(
    spool: sqlite3.Connection, side: int, paths: Iterable[str], found: RowComparison
) -> Iterator[tuple[int, bytes | None, bytes, int]]:
    for path in paths:
        number = spool.execute("INSERT INTO files (path) VALUES (?)", (path,)).lastrowid or 0
        for at, row in enumerate(read_rows(path)):
            found.read[side] += 1
            found.columns[side].update(name for name, value in row.items() if value is not None)
            value = row.get(found.key)
            key = None if value is None else _digest(value)
            yield side, key, _digest(row), number << _ROW_BITS | at


def _digest(value: Any) -> bytes:  # noqa: ANN401 - value of any column
    # The representation of a lone surrogate is ASCII, so encoding can't fail.
    return blake2b(repr(normalise(value)).encode(), digest_size=16).digest()


def normalise(value: Any) -> Any:  # noqa: ANN401 - value of any column
    """Return a value in a form that is equal for equal values of all formats.

    The order of columns does not count, a null equals a missing column, and 1 equals 1.0.
    """
    if isinstance(value, dict):
        # Most values need no call, which takes longer than the rest of the loop.
        return tuple(
            (name, each if type(each) in _PLAIN else normalise(each))
            for name, each in sorted(value.items(), key=itemgetter(0))
            if each is not None
        )
    if isinstance(value, list | tuple):
        return [*map(normalise, value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _count_key(
    key: bytes | None, entries: Iterator[_Entry], found: RowComparison
) -> Iterator[tuple[str, _Positions]]:
    """Count the rows of one key, which may exceed memory. Yield the kinds of rows that differ."""
    head = [*islice(entries, 3)]
    if key is not None and sorted(each[2:4] for each in head) == _PAIR:
        found.counts["changed"] += 1
        yield "changed", (head[0][4] or head[1][4], head[0][5] or head[1][5])
        return
    totals = [0, 0]
    for _, _, before, after, position, other in chain(head, entries):
        found.counts["equal"] += min(before, after)
        found.counts["removed"] += max(0, before - after)
        found.counts["added"] += max(0, after - before)
        totals = [totals[0] + before, totals[1] + after]
        if before != after:
            yield ("removed", (position, None)) if before > after else ("added", (None, other))
    for side, total in enumerate(totals):
        if key is None:
            found.null_keys[side] += total
        else:
            found.repeated_keys[side] += total > 1


def _read_samples(
    spool: sqlite3.Connection, key: str, positions: Mapping[str, Sequence[_Positions]]
) -> dict[str, tuple[SampleRow, ...]]:
    wanted = {
        position for pairs in positions.values() for pair in pairs for position in pair if position
    }
    rows: dict[int | None, Row] = {}
    for number, group in groupby(sorted(wanted), key=lambda position: position >> _ROW_BITS):
        ((path,),) = spool.execute("SELECT path FROM files WHERE number = ?", (number,))
        offsets = {position - (number << _ROW_BITS) for position in group}
        for at, row in enumerate(islice(read_rows(path), max(offsets) + 1)):
            if at in offsets:
                rows[number << _ROW_BITS | at] = row
    return {
        kind: tuple(_describe(key, rows.get(a, {}), rows.get(b, {})) for a, b in pairs)
        for kind, pairs in positions.items()
    }


def _describe(key: str, before: Row, after: Row) -> SampleRow:
    columns = (
        ColumnChange(name, *_cut(before.get(name), after.get(name)))
        for name in before | after
        if name != key and normalise(before.get(name)) != normalise(after.get(name))
    )
    value = (before or after).get(key)
    return SampleRow(str(_cut(value, None)[0]), tuple(columns))


def _cut(*values: Any) -> list[str | None]:  # noqa: ANN401 - values of any column
    """Return short texts: the parts of the values around their first difference."""
    texts = [None if value is None else _show(value) for value in values]
    known = [text for text in texts if text is not None]
    same = len(os.path.commonprefix(known))  # noqa: RUF071 - texts, not paths
    is_short = len(known) < 2 or max(map(len, known)) <= _WIDTH  # noqa: PLR2004 - both sides
    start = 0 if is_short else max(0, same - _LEAD)
    return [
        text
        and "…" * (start > 0) + text[start : start + _WIDTH] + "…" * (len(text) > start + _WIDTH)
        for text in texts
    ]


def _show(value: Any) -> str:  # noqa: ANN401 - value of any column
    if isinstance(value, bytes):
        return f"{len(value):,} bytes, blake2b {_digest(value).hex()}"
    return value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
