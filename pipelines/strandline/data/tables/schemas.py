"""Schemas of tables: parses, formats, and unifies types, and checks whether a type fits another.

The module must not depend on files, on stages, or on what happens to rows that do not fit.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

_NAMES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "bytes": pa.binary(),
}
_SYNTAX = {kind: name for name, kind in _NAMES.items()}
_SHOWN = 200  # number of characters of a type to show in messages
NOT_THERE = "values, and is not in the schema"


class SchemaSyntaxError(ValueError):
    """Raised if a type is written in an unknown notation. The message names the type."""


class SchemaClashError(ValueError):
    """Raised if a column has two types, and neither can represent the other's values.

    Args:
        column: name of the column. `a.b` is the field `b` in the objects of `a`, and `a[]` is an
            item of its lists.
        kinds: both types, for messages.
    """

    def __init__(self, column: str, *kinds: str) -> None:
        super().__init__(f"the column {column!r} is {' and '.join(kinds)}")
        self.column = column
        self.kinds = kinds


def parse_schema(columns: Mapping[str, Any]) -> pa.Schema:
    """Return the schema for `{name: type}`.

    A type is `text`, `int`, `float`, `bool`, `time`, or `bytes`; an Arrow type name such as
    `int32`; `[type]` for a list; or `{name: type}` for an object.

    Raises:
        SchemaSyntaxError: if a type has another form.
    """
    return pa.schema([pa.field(name, _parse_type(name, kind)) for name, kind in columns.items()])


def _parse_type(path: str, notation: object) -> pa.DataType:
    if isinstance(notation, Mapping) and notation:
        fields = [(name, _parse_type(f"{path}.{name}", kind)) for name, kind in notation.items()]
        return pa.struct(fields)
    if isinstance(notation, list | tuple) and len(notation) == 1:
        return pa.list_(_parse_type(f"{path}[]", notation[0]))
    if isinstance(notation, str):
        if notation in _NAMES:
            return _NAMES[notation]
        try:
            return pa.type_for_alias(notation)
        except ValueError:
            pass
    known = ", ".join(_NAMES)
    msg = f"{path}: unknown type {notation!r}; write {known}, [TYPE] or {{NAME: TYPE}}"
    raise SchemaSyntaxError(msg)


def format_type(kind: pa.DataType) -> str:
    """Return a type in YAML notation, or in Arrow's notation if YAML has none. Cut long results."""
    notation = _format(kind)
    return notation if len(notation) <= _SHOWN else f"{notation[:_SHOWN]}…"


def _format(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{field.name}: {_format(field.type)}" for field in _list_fields(kind))
        return f"{{{fields}}}"
    if pa.types.is_list(kind):
        return f"[{_format(kind.value_type)}]"
    return _SYNTAX.get(kind, str(kind))


def format_schema(schema: pa.Schema) -> str:
    """Return a schema in YAML notation, on one line."""
    return _format(pa.struct(list(schema)))


def pack_schema(schema: pa.Schema) -> str:
    """Return a schema as text for `unpack_schema`."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpack_schema(packed: str) -> pa.Schema:
    """Return the schema from the result of `pack_schema`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(packed)))


def simplify(schema: pa.Schema) -> pa.Schema:
    """Return the schema without metadata, dictionaries, and nullability."""
    return pa.schema([pa.field(field.name, _simplify_type(field.type)) for field in schema])


def _simplify_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _simplify_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _simplify_type(each.type)) for each in _list_fields(kind)])
    if pa.types.is_list(kind):
        return pa.list_(_simplify_type(kind.value_type))
    return kind


def unify(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema that fits the values of two simplified schemas.

    Null can be unified with any type, and integers with floats. Objects get the fields of both.

    Raises:
        SchemaClashError: if a column has two types, and neither can represent the other's values.
    """
    fields = {field.name: field.type for field in schema}
    for field in other:
        mine = fields.setdefault(field.name, field.type)
        fields[field.name] = _unify_types(field.name, mine, field.type)
    return pa.schema(list(fields.items()))


def _unify_types(path: str, mine: pa.DataType, other: pa.DataType) -> pa.DataType:
    if mine == other:
        return mine
    if pa.types.is_struct(mine) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in _list_fields(mine)}
        for field in _list_fields(other):
            kind = fields.setdefault(field.name, field.type)
            fields[field.name] = _unify_types(f"{path}.{field.name}", kind, field.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(mine) and pa.types.is_list(other):
        return pa.list_(_unify_types(f"{path}[]", mine.value_type, other.value_type))
    # Arrow would unify text and bytes to bytes, which is never intended.
    if {_find_family(mine), _find_family(other)} == {"text", "bytes"}:
        raise SchemaClashError(path, format_type(mine), format_type(other))
    schemas = [pa.schema([(path, kind)]) for kind in (mine, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        raise SchemaClashError(path, format_type(mine), format_type(other)) from None


def list_differing(schema: pa.Schema, other: pa.Schema) -> Iterator[str]:
    """Yield the columns that differ between two schemas. Null counts as equal to every type."""
    for name in dict.fromkeys([*schema.names, *other.names]):
        if name not in schema.names or name not in other.names:
            yield name
            continue
        mine, theirs = schema.field(name).type, other.field(name).type
        if mine != theirs and not (pa.types.is_null(mine) or pa.types.is_null(theirs)):
            yield name


def describe_column(schema: pa.Schema, name: str) -> str:
    """Return the type of a column for messages."""
    return format_type(schema.field(name).type) if name in schema.names else "not there"


def list_widened(schema: pa.Schema, whole: pa.Schema) -> Iterator[str]:
    """Yield the integer columns of a schema that are floats in another schema."""
    for field in schema:
        yield from _list_widened_types(field.name, field.type, whole.field(field.name).type)


def _list_widened_types(path: str, kind: pa.DataType, whole: pa.DataType) -> Iterator[str]:
    if pa.types.is_integer(kind) and pa.types.is_floating(whole):
        yield path
    elif pa.types.is_list(kind) and pa.types.is_list(whole):
        yield from _list_widened_types(f"{path}[]", kind.value_type, whole.value_type)
    elif pa.types.is_struct(kind) and pa.types.is_struct(whole):
        for field in _list_fields(kind):
            inner = whole.field(field.name).type
            yield from _list_widened_types(f"{path}.{field.name}", field.type, inner)


def find_misfit(path: str, kind: pa.DataType, wanted: pa.DataType) -> tuple[str, str] | None:
    """Return the path and reason if a type does not fit another type, or None if it fits.

    A type may fit although a single value does not: a number may be too large.
    """
    if pa.types.is_null(kind) or kind == wanted:
        return None
    if pa.types.is_dictionary(kind):
        return find_misfit(path, kind.value_type, wanted)
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return _find_field_misfit(path, kind, wanted)
    if _holds_items(kind) and _holds_items(wanted):
        return find_misfit(f"{path}[]", kind.value_type, wanted.value_type)
    if _find_family(wanted) in _FITTING.get(_find_family(kind), ()):
        return None
    return path, f"{format_type(kind)}, but the schema has {format_type(wanted)}"


def _find_field_misfit(path: str, kind: pa.DataType, wanted: pa.DataType) -> tuple[str, str] | None:
    fields = {field.name: field.type for field in _list_fields(wanted)}
    for field in _list_fields(kind):
        inner = f"{path}.{field.name}"
        if field.name not in fields:
            return inner, NOT_THERE
        if found := find_misfit(inner, field.type, fields[field.name]):
            return found
    return None


# Families of types that may be read as another family. Arrow checks each value during the cast.
_FITTING: Mapping[str, tuple[str, ...]] = {
    "int": ("int", "float", "decimal"),
    "float": ("float", "int"),
    "decimal": ("decimal",),
    "text": ("text", "time", "date"),
    "bytes": ("bytes", "text"),  # many Parquet writers do not mark text as such
    "time": ("time",),
    "time zone": ("time zone",),
    "date": ("date",),
    "duration": ("duration",),
}
_FAMILIES = {
    "int": (pa.types.is_integer,),
    "float": (pa.types.is_floating,),
    "decimal": (pa.types.is_decimal,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "bytes": (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    ),
    "date": (pa.types.is_date,),
    "duration": (pa.types.is_duration,),
}


def _find_family(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "time" if kind.tz is None else "time zone"
    for family, checks in _FAMILIES.items():
        if any(check(kind) for check in checks):
            return family
    return str(kind)


def _holds_items(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _list_fields(kind: pa.StructType) -> Iterable[pa.Field]:
    return [kind.field(at) for at in range(kind.num_fields)]
