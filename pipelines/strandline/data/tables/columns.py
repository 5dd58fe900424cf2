"""Columns of a task's table: lookup by name, conversion, and replacement.

The module must not depend on the meaning of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.plan.task import Task

ROW_KEYS = ("key", "clip", "url", "id")  # columns that identify a row, in order of preference


class MissingColumnError(ValueError):
    """Raised if the input lacks a column that a stage needs."""


def check_names(schema: pa.Schema) -> None:
    """Check that column names are unique, and field names are unique within each object.

    Raises:
        ValueError: if a name occurs twice, because one of the values would be lost.
    """
    _check_fields(list(schema), "column")


def _check_fields(fields: Sequence[pa.Field], what: str) -> None:
    names = [field.name for field in fields]
    for field in fields:
        if names.count(field.name) > 1:
            msg = f"two {what}s are called {field.name!r}; rename one of them"
            raise ValueError(msg)
        if pa.types.is_nested(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            _check_fields(inner, "field")


def find_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the column named `name`.

    Raises:
        MissingColumnError: if the column is missing; the message lists the existing columns.
    """
    if name not in table.column_names:
        msg = (
            f"there is no column {name!r}; the columns are: "
            f"{', '.join(table.column_names) or 'none'}"
        )
        raise MissingColumnError(msg)
    return table.column(name)


def find_field(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Return the column at a path such as `image.bytes`, which may be a field of a struct column.

    Raises:
        MissingColumnError: if the column is missing; the message lists the existing names.
    """
    if path in table.column_names:
        return table.column(path)
    name, *fields = path.split(".")
    column = find_column(table, name)
    for field in fields:
        kind = column.type
        names = [each.name for each in kind] if pa.types.is_struct(kind) else []
        if field not in names:
            msg = (
                f"the column {name!r} has no field {field!r}; it has: {', '.join(names) or 'none'}"
            )
            raise MissingColumnError(msg)
        column = pc.struct_field(column, field)
        name = f"{name}.{field}"
    return column


def list_strings(table: pa.Table, name: str) -> list[str]:
    """Return the values of a string column. Nulls become empty strings.

    Raises:
        MissingColumnError: if the column is missing.
        TypeError: if the column is not text.
    """
    column = find_column(table, name)
    if not (holds_text(column.type) or pa.types.is_null(column.type)):
        msg = f"the column {name!r} holds {column.type}, not text"
        raise TypeError(msg)
    return [value or "" for value in column.to_pylist()]


def list_texts(table: pa.Table, name: str) -> list[str]:
    """Return a column's values as text, for keys and group names. Nulls become empty strings.

    Raises:
        MissingColumnError: if the column is missing.
        TypeError: if the values can't be converted to text.
    """
    column = find_column(table, name)
    try:
        texts = column.cast(pa.string())
    except pa.ArrowException as error:
        msg = f"the column {name!r} holds {column.type}, which can't be written as text"
        raise TypeError(msg) from error
    return [value or "" for value in texts.to_pylist()]


def list_comparable(table: pa.Table, name: str) -> list[str]:
    """Return a text for each value of a column, equal for equal values. Nulls become empty.

    Numbers, dates, and truth values are written as Arrow writes them, bytes in hexadecimal.

    Raises:
        MissingColumnError: if the column is missing.
        TypeError: if the column contains lists or structs.
    """
    column = find_column(table, name)
    kind = column.type
    if pa.types.is_fixed_size_binary(kind) or (holds_bytes(kind) and not pa.types.is_nested(kind)):
        return [(value or b"").hex() for value in column.to_pylist()]
    return list_texts(table, name)


def holds_text(kind: pa.DataType) -> bool:
    """Return True for all Arrow text types, including dictionaries of text."""
    if pa.types.is_dictionary(kind):
        return holds_text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def holds_bytes(kind: pa.DataType) -> bool:
    """Return True for binary types, even inside lists and structs."""
    if pa.types.is_nested(kind):
        return any(holds_bytes(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def set_column(
    table: pa.Table, name: str, values: Sequence[object] | pa.Array, kind: pa.DataType
) -> pa.Table:
    """Return the table with the column replaced in place, or added at the end."""
    column = values if isinstance(values, pa.Array) else pa.array(values, kind)
    index = table.column_names.index(name) if name in table.column_names else -1
    field = pa.field(name, kind)
    if index < 0:
        return table.append_column(field, column)
    return table.set_column(index, field, column)


def map_strings(table: pa.Table, name: str, change: Callable[[str], str]) -> pa.Table:
    """Return the table with `change` applied to a column of strings or of lists of strings.

    Raises:
        MissingColumnError: if the column is missing.
    """
    column = find_column(table, name).combine_chunks()
    kind = column.type
    # Both branches use `value and`, which keeps nulls.
    if pa.types.is_list(kind):
        changed = [value and [change(item) for item in value] for value in column.to_pylist()]
    else:
        changed = [value and change(value) for value in column.to_pylist()]
    return set_column(table, name, changed, kind)


def keep_rows(
    task: Task, table: pa.Table, mask: pa.Array | pa.ChunkedArray | list[bool]
) -> Task | None:
    """Return the task with the rows where `mask` is True, or None if no row remains."""
    kept = table.filter(pa.array(mask, pa.bool_()) if isinstance(mask, list) else mask)
    return task.replace(kept) if kept.num_rows else None
