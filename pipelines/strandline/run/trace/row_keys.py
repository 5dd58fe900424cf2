"""Keys of rows as text, and the differences between two rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

RowIndex = dict[str, list[int]]
"""Rows of a table by key."""


def index_rows(table: pa.Table, column: str) -> RowIndex:
    """Return the rows of a table by key. Rows without a key are omitted."""
    if column not in table.column_names:
        return {}
    return index_values(table[column].to_pylist())


def index_values(values: Iterable[object]) -> RowIndex:
    """Return the positions of values by their text. Nulls are omitted."""
    index: RowIndex = {}
    for row, value in enumerate(values):
        if value is not None:
            index.setdefault(format_key(value), []).append(row)
    return index


def read_key(table: pa.Table, column: str, row: int) -> str:
    """Return the key of a row, or an empty text if the row has no key."""
    if column not in table.column_names:
        return ""
    value = table[column][row].as_py()
    return "" if value is None else format_key(value)


def format_key(value: object) -> str:
    """Return a key as text, as on the command line."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class ColumnChanges(NamedTuple):
    """Names of the columns in which a row differs from the row before."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


def compare_columns(before: pa.Table, row: int, after: pa.Table, position: int) -> ColumnChanges:
    """Compare rows of two tables."""
    old, new = before.column_names, after.column_names
    both = [name for name in new if name in old]
    values = ((name, before[name][row].as_py(), after[name][position].as_py()) for name in both)
    return ColumnChanges(
        # A value that differs from itself is NaN.
        tuple(name for name, a, b in values if a != b and (a == a or b == b)),  # noqa: PLR0124
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
    )
