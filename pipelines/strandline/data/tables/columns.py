"""Columns of a task's table, asked for by name and given back changed.

It knows tables, nothing of what the values mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.plan.task import Task


class MissingColumnError(ValueError):
    """A column that a stage needs and its input does not have."""


def check_names(schema: pa.Schema) -> None:
    """Check that each column, and each field of an object, has a name of its own.

    Raises:
        ValueError: two have the same name, of which one would be lost.
    """
    _check_fields(list(schema), "column")


def _check_fields(fields: Sequence[pa.Field], what: str) -> None:
    names = [field.name for field in fields]
    for field in fields:
        if names.count(field.name) > 1:
            msg = f"two {what}s are called {field.name!r}; give each a name of its own"
            raise ValueError(msg)
        if pa.types.is_nested(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            _check_fields(inner, "field")


def find_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the column called `name`.

    Raises:
        MissingColumnError: there is none; the message lists those there are.
    """
    if name not in table.column_names:
        msg = f"there is no column {name!r}; there are: {', '.join(table.column_names) or 'none'}"
        raise MissingColumnError(msg)
    return table.column(name)


def find_field(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Return the column at a path such as `image.bytes`, of a column of maps one of their fields.

    Raises:
        MissingColumnError: there is none; the message lists those there are.
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
    """Return the values of a string column; a null is the empty string.

    Raises:
        MissingColumnError: there is no such column.
        TypeError: it holds no text.
    """
    column = find_column(table, name)
    if not (holds_text(column.type) or pa.types.is_null(column.type)):
        msg = f"the column {name!r} holds {column.type}, not text"
        raise TypeError(msg)
    return [value or "" for value in column.to_pylist()]


def list_texts(table: pa.Table, name: str) -> list[str]:
    """List a column's values as text, as keys and names of groups; a null is the empty string.

    Raises:
        MissingColumnError: there is no such column.
        TypeError: its values have no spelling.
    """
    column = find_column(table, name)
    try:
        texts = column.cast(pa.string())
    except pa.ArrowException as error:
        msg = f"the column {name!r} holds {column.type}, which can't be written as text"
        raise TypeError(msg) from error
    return [value or "" for value in texts.to_pylist()]


def holds_text(kind: pa.DataType) -> bool:
    """Return True for every Arrow type of text, also behind a dictionary."""
    if pa.types.is_dictionary(kind):
        return holds_text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def holds_bytes(kind: pa.DataType) -> bool:
    """Return True for types of files and pictures, also inside lists and structs."""
    if pa.types.is_nested(kind):
        return any(holds_bytes(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def set_column(
    table: pa.Table, name: str, values: Sequence[object] | pa.Array, kind: pa.DataType
) -> pa.Table:
    """Return the table with the column replaced in its place, or added at the end."""
    column = values if isinstance(values, pa.Array) else pa.array(values, kind)
    index = table.column_names.index(name) if name in table.column_names else -1
    field = pa.field(name, kind)
    if index < 0:
        return table.append_column(field, column)
    return table.set_column(index, field, column)


def map_strings(table: pa.Table, name: str, change: Callable[[str], str]) -> pa.Table:
    """Return the table with `change` applied to a column of strings or of lists of strings.

    Raises:
        MissingColumnError: there is no such column.
    """
    column = find_column(table, name).combine_chunks()
    kind = column.type
    if pa.types.is_list(kind):
        changed = [value and [change(item) for item in value] for value in column.to_pylist()]
    else:
        changed = [value and change(value) for value in column.to_pylist()]
    return set_column(table, name, changed, kind)


def keep_rows(
    task: Task, table: pa.Table, mask: pa.Array | pa.ChunkedArray | list[bool]
) -> Task | None:
    """Return the task with the rows where `mask` is true; None where no row is left."""
    kept = table.filter(pa.array(mask, pa.bool_()) if isinstance(mask, list) else mask)
    return task.replace(kept) if kept.num_rows else None
