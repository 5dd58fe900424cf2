"""Tables as a schema wants them: columns in its order, each of its type, those not there null.

It must not know files, nor what becomes of a row that doesn't fit.
"""

from __future__ import annotations

import pyarrow as pa

from strandline.data.tables.columns import check_names, holds_text
from strandline.data.tables.schemas import NOT_THERE, find_misfit, format_type


class SchemaMisfitError(ValueError):
    """A column that does not fit into a schema; the message says how, in words.

    Args:
        column: its name; `a.b` is the field `b` in the objects of `a`, `a[]` an item of its lists.
        details: what it has, and what the schema has.
        row: the first row that does not fit, by its position; None: no one row is to blame.
    """

    def __init__(self, column: str, details: str, row: int | None = None) -> None:
        super().__init__(f"the column {column!r} has {details}")
        self.column = column
        self.details = details
        self.row = row


def conform_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table of the schema with the same values.

    Raises:
        SchemaMisfitError: a column is not in the schema, or has a value that its type can't hold.
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
    """Return a column with the same values in another type.

    Raises:
        SchemaMisfitError: a value is none of that type.
    """
    if column.type == wanted:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), wanted)])
    if (misfit := find_misfit(name, column.type, wanted)) is not None:
        raise SchemaMisfitError(*misfit, _find_first_value(column))
    try:
        return cast(column, wanted)
    except pa.ArrowException as error:
        row = _find_first_misfit(column, wanted)
        value = str(column[row].as_py())[:80]
        details = f"{value!r}, which is no {format_type(wanted)}, as the schema has it"
        raise SchemaMisfitError(name, details, row) from error


def cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Return a column in another type that holds each of its values; a time's zone is applied.

    Raises:
        ArrowInvalid: a value would not be the same.
    """
    is_time = pa.types.is_timestamp(wanted) and wanted.tz is None
    if not (is_time and holds_text(column.type)):
        return column.cast(wanted)
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:  # text of times that name their zone, such as `Z`
        return column.cast(pa.timestamp(wanted.unit, "UTC")).cast(wanted)


def _find_first_value(column: pa.ChunkedArray) -> int:
    return next(at for at, is_there in enumerate(column.is_valid().to_pylist()) if is_there)


def _find_first_misfit(column: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """Return the first row that can't be cast, by halves."""
    low, high = 0, len(column)  # rows of which `low` can be cast and `high` can't
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low), wanted)
            low = middle
        except pa.ArrowException:
            high = middle
    return low
