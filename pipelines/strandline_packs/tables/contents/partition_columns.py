"""Reads columns from folder names, as Hive and Spark write tables.

This module takes a key, returns columns, and does no I/O. Values stay text, so that all files of a
table have the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from urllib.parse import unquote

import pyarrow as pa

from strandline.data.tables.columns import check_names

_NULL = "__HIVE_DEFAULT_PARTITION__"  # Hive's name for null


class Partitioning(StrEnum):
    """Notation of columns in folder names."""

    NONE = "none"
    HIVE = "hive"


class PartitionColumnError(ValueError):
    """Raised if a column occurs both in a folder name and in the file, or in two folder names."""


def parse_folders(key: str) -> dict[str, str | None]:
    """Return the columns of the `name=value` folders above a file, in order.

    Raises:
        PartitionColumnError: two folders name the same column.
    """
    columns: dict[str, str | None] = {}
    for name, value in _split(key):
        if name in columns:
            msg = f"two folders name the column {name!r}"
            raise PartitionColumnError(msg)
        columns[name] = value
    return columns


def _split(key: str) -> Iterator[tuple[str, str | None]]:
    # Protocol, host, and query of a URL are not folders.
    for folder in key.partition("://")[2 if "://" in key else 0].split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign and name:
            yield unquote(name), None if value == _NULL else unquote(value)


def append_columns(table: pa.Table, columns: Mapping[str, str | None]) -> pa.Table:
    """Append columns with one value each to a table.

    Raises:
        PartitionColumnError: the table already has one of the columns.
    """
    check_names(table.schema)
    for name, value in columns.items():
        if name in table.column_names:
            msg = f"the column {name!r} is in the file and in the name of its folder as well"
            raise PartitionColumnError(msg)
        table = table.append_column(
            pa.field(name, pa.string()), pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
        )
    return table
