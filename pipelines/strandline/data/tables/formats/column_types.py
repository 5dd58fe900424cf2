"""Column types and names that each table format accepts.

A push copies Parquet files unchanged, so types that the table's readers do not support are rejected
before the push writes any file. This module has no side effects, and must not depend on any table
library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from strandline.data.shipments.shipment import TargetRefusedError
from strandline.data.tables.schemas import format_type

Holds = Callable[[pa.DataType], bool]
_UTC = frozenset({None, "UTC", "Etc/UTC", "+00:00"})
_TEXT: tuple[Holds, ...] = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: tuple[Holds, ...] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def _is_plain_time(kind: pa.DataType) -> bool:
    """Return True for timestamps of at most microsecond precision, in UTC or without a zone."""
    return pa.types.is_timestamp(kind) and kind.unit != "ns" and kind.tz in _UTC


COMMON: tuple[Holds, ...] = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date32,
    pa.types.is_decimal128,
    _is_plain_time,
    *_TEXT,
    *_BYTES,
)


class ColumnRules(NamedTuple):
    """Types and names that a table format accepts.

    Attributes:
        kind: name of the format, for messages.
        holds: predicates for types of values. A type is accepted if any predicate is true.
        is_case_blind: True if readers ignore the case of names.
        is_dot_blind: True if readers treat `a.b` as the field `b` of `a`.
        reserved: names with a special meaning for readers.
        letters: characters that names must not contain.
    """

    kind: str
    holds: tuple[Holds, ...]
    is_case_blind: bool = False
    is_dot_blind: bool = False
    reserved: frozenset[str] = frozenset()
    letters: str = ""


def require_columns(target: str, rules: ColumnRules, schema: pa.Schema) -> None:
    """Raise an error for the first column that a table format does not accept.

    Raises:
        TargetRefusedError: if a type or a name is not accepted.
    """
    why = next(_list_misfits(rules, "", list(schema)), None)
    if why is not None:
        raise TargetRefusedError(f"{target}: {why}; change the column in a stage, or leave it out")


def _list_misfits(rules: ColumnRules, above: str, fields: list[pa.Field]) -> Iterator[str]:
    known: dict[str, str] = {}
    for field in fields:
        path = f"{above}{field.name}"
        if (why := _find_bad_name(rules, field.name)) is not None:
            yield f"the column {path!r} {why}"
        key = field.name.casefold() if rules.is_case_blind else field.name
        if key in known:
            both = f"the columns {known[key]!r} and {path!r}"
            yield f"{both} are the same column to readers of {rules.kind}"
        known[key] = path
        yield from _list_type_misfits(rules, path, field.type)
    if rules.is_dot_blind:
        paths = [path for field in fields for path in _list_paths("", field)]
        twice = next((path for at, path in enumerate(paths) if path in paths[:at]), None)
        if twice is not None:
            yield f"two columns are named {twice!r} to readers of {rules.kind}"


def _find_bad_name(rules: ColumnRules, name: str) -> str | None:
    if not name:
        return "has no name"
    if name in rules.reserved:
        return f"has a name that {rules.kind} reserves"
    letter = next((letter for letter in name if letter in rules.letters), None)
    return None if letter is None else f"has {letter!r} in its name, which {rules.kind} rejects"


def _list_type_misfits(rules: ColumnRules, path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_dictionary(kind):
        yield from _list_type_misfits(rules, path, kind.value_type)
    elif pa.types.is_struct(kind):
        yield from _list_misfits(rules, f"{path}.", list(kind))
    elif pa.types.is_map(kind):
        yield from _list_type_misfits(rules, f"{path}.key", kind.key_type)
        yield from _list_type_misfits(rules, f"{path}.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _list_type_misfits(rules, f"{path}[]", kind.value_type)
    elif not any(holds(kind) for holds in rules.holds):
        yield (
            f"the column {path!r} is {format_type(kind)} ({kind}), which {rules.kind} does not "
            "support"
        )


def _list_paths(above: str, field: pa.Field) -> Iterator[str]:
    """Yield the paths of a column and of its nested fields, as names joined by dots."""
    path = f"{above}{field.name}"
    yield path
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _list_paths(f"{path}.", inner)
