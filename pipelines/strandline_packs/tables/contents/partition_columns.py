"""Columns that stand in the names of folders, as Hive and Spark write tables.

Pure: a key in, columns out. Values stay text, so that all files of a table have one type for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from urllib.parse import unquote

import pyarrow as pa

from strandline.data.tables.columns import check_names

_NULL = "__HIVE_DEFAULT_PARTITION__"


class Partitioning(StrEnum):
    """How folders name the columns of the files in them."""

    NONE = "none"
    HIVE = "hive"


class PartitionColumnError(ValueError):
    """A column stands in a folder's name and in the file as well, or in two folders' names."""


def parse_folders(key: str) -> dict[str, str | None]:
    """Return the columns of `name=value` folders above a file, in their order.

    Raises:
        PartitionColumnError: two folders name one column.
    """
    columns: dict[str, str | None] = {}
    for name, value in _split(key):
        if name in columns:
            msg = f"two folders name the column {name!r}"
            raise PartitionColumnError(msg)
        columns[name] = value
    return columns


def _split(key: str) -> Iterator[tuple[str, str | None]]:
    # The protocol and the host of a URL are no folders, and a query is none either.
    for folder in key.partition("://")[2 if "://" in key else 0].split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign and name:
            yield unquote(name), None if value == _NULL else unquote(value)


def append_columns(table: pa.Table, columns: Mapping[str, str | None]) -> pa.Table:
    """Return a table with columns of one value each behind its own.

    Raises:
        PartitionColumnError: the table has one of them itself.
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
