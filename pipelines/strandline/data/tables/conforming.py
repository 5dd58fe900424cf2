"""Converts tables to a schema: order and types of columns. Missing columns become null.

The module must not depend on files, or on what happens to rows that do not fit.
"""

from __future__ import annotations

import pyarrow as pa

from strandline.data.tables.columns import check_names, holds_text
from strandline.data.tables.schemas import NOT_THERE, find_misfit, format_type


class SchemaMisfitError(ValueError):
    """Raised if a column does not fit a schema. The message explains why.

    Args:
        column: name of the column. `a.b` is the field `b` in the objects of `a`, and `a[]` is an
            item of its lists.
        details: type or value in the column, and the type in the schema.
        row: index of the first row that does not fit, or None if the whole column does not fit.
    """

    def __init__(self, column: str, details: str, row: int | None = None) -> None:
        super().__init__(f"the column {column!r} has {details}")
        self.column = column
        self.details = details
        self.row = row


def conform_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert a table to a schema without changing values.

    Raises:
        SchemaMisfitError: if the schema lacks a column of the table, or a column has a value that
            the column's type in the schema can't represent.
    """
    check_names(table.schema)
    wanted = set(schema.names)
    for name in table.column_names:
        if name not in wanted:
            raise SchemaMisfitError(name, NOT_THERE)
    return pa.table([_conform_column(table, field) for field in schema], schema=schema)


def _conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    return conform_values(field.name, table.column(field.name), field.type)


def conform_values(name: str, column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to another type without changing values.

    Raises:
        SchemaMisfitError: if the type can't represent a value.
    """
    if column.type == wanted:
        return column
    # Nulls fit every type.
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), wanted)])
    if (misfit := find_misfit(name, column.type, wanted)) is not None:
        raise SchemaMisfitError(*misfit, _find_first_value(column))
    try:
        return cast(column, wanted)
    except pa.ArrowException as error:
        row = _find_first_misfit(column, wanted)
        # Show only the beginning, because a value can be a whole document.
        value = str(column[row].as_py())[:80]
        details = f"{value!r}, but the schema requires {format_type(wanted)}"
        raise SchemaMisfitError(name, details, row) from error


def cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Cast a column to another type without changing values. Time zones are converted to UTC.

    Raises:
        ArrowInvalid: if a value would change.
    """
    is_time = pa.types.is_timestamp(wanted) and wanted.tz is None
    if not (is_time and holds_text(column.type)):
        return column.cast(wanted)
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:  # times as text with a time zone, such as `Z`
        return column.cast(pa.timestamp(wanted.unit, "UTC")).cast(wanted)


def _find_first_value(column: pa.ChunkedArray) -> int:
    return next(at for at, is_there in enumerate(column.is_valid().to_pylist()) if is_there)


def _find_first_misfit(column: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """Return the index of the first row that can't be cast, by bisection."""
    low, high = 0, len(column)  # the first `low` rows can be cast, the first `high` rows can't
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low), wanted)
            low = middle
        except pa.ArrowException:
            high = middle
    return low
