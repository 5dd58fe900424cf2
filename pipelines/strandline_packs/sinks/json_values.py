"""Formats table rows as JSON, identically in all sinks and with every set of libraries.

Arrow converts times differently if pandas is installed, and fails beyond the year 9999. Therefore
this module reads times as integers and formats them itself. The module must not depend on files.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from itertools import repeat
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strandline.data.tables.columns import check_names

_BATCH_ROWS, _BATCH_BYTES = 1024, 4 << 20
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY = 86_400
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # the calendar repeats after this period
_LAST_YEAR = 9999
_END = orjson.OPT_APPEND_NEWLINE
# orjson supports at most 254 levels, but Arrow types may be deeper. Deeper types than this use
# `json`.
_LEVELS = 8
# Within these limits every version of orjson formats numbers as Python does.
_LEAST, _MOST = 1e-4, 1e16

Format = Callable[[Any], Any]
Encoding = Callable[[pa.Array], Sequence[Any]]


def list_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows that `format_json` accepts: times become ISO 8601 text.

    Years beyond 9999 have a sign and six digits. Fractions of seconds have zero, six, or nine
    digits.

    Raises:
        ValueError: two columns, or two fields of a column, share a name.
    """
    check_names(table.schema)
    formats = {field.name: _find_format(field.type) for field in table.schema}
    timed = {name: change for name, change in formats.items() if change is not None}
    for batch in _count_times(table, timed.keys()).to_batches(max_chunksize=_BATCH_ROWS):
        for row in batch.to_pylist():
            for name, change in timed.items():
                row[name] = change(row[name])
            yield row


def format_lines(table: pa.Table) -> Iterator[list[bytes]]:
    """Yield batches of rows as JSON lines. The text equals that of `format_json` without spaces.

    Raises:
        ValueError: two columns, or two fields of a column, share a name.
    """
    check_names(table.schema)
    names = table.column_names
    encodings = [_find_encoding(field.type) for field in table.schema]
    timed = {field.name for field in table.schema if _find_format(field.type)}
    # Use small batches for long rows, which are in memory as Arrow, Python, and JSON data.
    most = max(1, min(_BATCH_ROWS, _BATCH_BYTES * table.num_rows // max(1, table.nbytes)))
    for batch in _count_times(table, timed).to_batches(max_chunksize=most):
        columns = [encode(column) for encode, column in zip(encodings, batch.columns, strict=True)]
        rows = zip(*columns, strict=True) if columns else repeat((), batch.num_rows)
        yield [orjson.dumps(dict(zip(names, row, strict=False)), None, _END) for row in rows]


def _count_times(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Return the table with integers instead of times in some columns."""
    fields = [
        pa.field(field.name, _count_type(field.type)) if field.name in names else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)) if names else table


def format_json(row: dict[str, Any], **layout: Any) -> str:  # noqa: ANN401 - options of `json.dumps`
    """Format a row as JSON: bytes as base64, NaN and infinities as null."""
    options: dict[str, Any] = {
        "ensure_ascii": False,
        "default": _format_value,
        "allow_nan": False,
    } | layout
    try:
        return json.dumps(row, **options)
    except ValueError:  # only NaN can raise this: the values have no cycles
        return json.dumps(_replace_nan(row), **options)


def list_cells(table: pa.Table, name: str) -> Iterator[str]:
    """Yield the values of one column, formatted as in `format_json`.

    Raises:
        ValueError: two fields of a column share a name.
    """
    # Format 0 under the same name to find the start of the value.
    before = len(format_json({name: 0})) - len("0}")
    return (format_json(row)[before:-1] for row in list_rows(table.select([name])))


def _find_encoding(kind: pa.DataType) -> Encoding:
    """Return a function that prepares values, so that orjson writes the same as `format_json`."""
    if pa.types.is_floating(kind):
        return _list_fractions
    change = _find_format(kind)
    if not _is_plain(kind):
        return partial(_list_fragments, change=change or _leave)
    if change is None:
        return lambda column: column.to_pylist()
    return lambda column: [change(value) for value in column.to_pylist()]


def _is_plain(kind: pa.DataType, levels: int = _LEVELS) -> bool:
    """Return whether orjson and Python format all values of a type equally (times as text)."""
    types = pa.types
    if types.is_dictionary(kind):
        return _is_plain(kind.value_type, levels)
    if types.is_map(kind) or types.is_struct(kind) or _is_list(kind):
        inner = [kind.field(at).type for at in range(kind.num_fields)]
        return levels > 0 and all(_is_plain(each, levels - 1) for each in inner)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return True
    return bool(types.is_integer(kind) or types.is_boolean(kind) or _is_time(kind))


def _list_fractions(column: pa.Array) -> list[Any]:
    column = pc.cast(column, pa.float64())
    values: list[Any] = column.to_pylist()
    sizes = pc.abs(column)
    # Exclude NaN and infinities, which both libraries write as null.
    small = pc.and_(pc.less(sizes, _LEAST), pc.greater(sizes, 0))
    large = pc.and_(pc.greater_equal(sizes, _MOST), pc.is_finite(sizes))
    for at in pc.indices_nonzero(pc.or_(small, large)).to_pylist():
        values[at] = orjson.Fragment(repr(values[at]))
    return values


def _list_fragments(column: pa.Array, change: Format) -> list[Any]:
    return [
        None if value is None else orjson.Fragment(encode_value(change(value)))
        for value in column.to_pylist()
    ]


def encode_value(value: object) -> str:
    """Format a value as `format_json` does, without spaces."""
    return format_json({"": value}, separators=(",", ":"))[len('{"":') : -1]


def _format_value(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    # Times inside types that are not searched, such as list views.
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _replace_nan(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _replace_nan(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):  # the entries of a map are tuples
        return [_replace_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _count_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with integers instead of times."""
    types = pa.types
    if types.is_dictionary(kind):
        return _count_type(kind.value_type)
    if types.is_map(kind):
        return pa.map_(_count_type(kind.key_type), _count_type(kind.item_type))
    if types.is_struct(kind):
        inner = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, _count_type(each.type)) for each in inner])
    if _is_list(kind):
        return _build_list(kind, _count_type(kind.value_type))
    if _is_time(kind):
        return pa.int32() if types.is_date32(kind) or types.is_time32(kind) else pa.int64()
    return kind


def _build_list(kind: pa.DataType, inner: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _find_format(kind: pa.DataType) -> Format | None:
    """Return a function that formats the times in a value, or None if its type has no times."""
    types = pa.types
    if types.is_dictionary(kind):
        return _find_format(kind.value_type)
    if types.is_map(kind):
        return _format_map(_find_format(kind.key_type), _find_format(kind.item_type))
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return _format_struct({each.name: _find_format(each.type) for each in fields})
    if _is_list(kind):
        inner = _find_format(kind.value_type)
        return inner and (lambda values: None if values is None else [inner(v) for v in values])
    return _find_time_format(kind) if _is_time(kind) else None


def _format_map(key: Format | None, item: Format | None) -> Format | None:
    if key is None and item is None:
        return None
    key, item = key or _leave, item or _leave
    return lambda pairs: pairs and [(key(name), item(value)) for name, value in pairs]


def _format_struct(fields: dict[str, Format | None]) -> Format | None:
    timed = {name: change for name, change in fields.items() if change is not None}
    if not timed:
        return None
    return lambda row: row and row | {name: change(row[name]) for name, change in timed.items()}


def _leave(value: Any) -> Any:  # noqa: ANN401 - JSON
    return value


def _find_time_format(kind: pa.DataType) -> Format:
    if pa.types.is_date32(kind):
        change: Format = _format_day
    elif pa.types.is_date64(kind):
        change = _format_milliseconds
    elif pa.types.is_timestamp(kind):
        zone = pa.lib.string_to_tzinfo(kind.tz) if kind.tz else None
        change = partial(_format_timestamp, size=_PER_SECOND[kind.unit], zone=zone)
    else:
        write = _format_duration if pa.types.is_duration(kind) else _format_clock
        change = partial(write, size=_PER_SECOND[kind.unit])
    return lambda count: None if count is None else change(count)


def _format_milliseconds(count: int) -> str:
    return _format_day(count // (_DAY * 1000))


def _format_day(days: int) -> str:
    # Map the day to a year that Python supports: the calendar repeats after a cycle.
    cycles, rest = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + cycles * _CYCLE_YEARS
    text = f"{year:04}" if 0 <= year <= _LAST_YEAR else f"{year:+07}"
    return f"{text}-{day.month:02}-{day.day:02}"


def _format_timestamp(count: int, size: int, zone: tzinfo | None) -> str:
    offset = ""
    if zone is not None:
        try:
            there = (_EPOCH + timedelta(seconds=count // size)).astimezone(zone)
        except (OverflowError, ValueError):  # the zone has no rules for that year, so use UTC
            offset = "+00:00"
        else:
            # The time has whole seconds, so the offset starts at a fixed position.
            offset = there.isoformat()[len("1970-01-01T00:00:00") :]
            count += (there.utcoffset() or timedelta()) // timedelta(seconds=1) * size
    days, count = divmod(count, _DAY * size)
    return f"{_format_day(days)}T{_format_clock(count, size)}{offset}"


def _format_duration(count: int, size: int) -> str:
    days, count = divmod(count, _DAY * size)
    clock = _format_clock(count, size).removeprefix("0")  # the format of Python durations
    return f"{days} day{'' if abs(days) == 1 else 's'}, {clock}" if days else clock


def _format_clock(count: int, size: int) -> str:
    seconds, rest = divmod(count, size)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    nanoseconds = rest * (_PER_SECOND["ns"] // size)
    fraction = f".{nanoseconds:09}" if rest else ""
    # Omit the last three digits if they are zero, as Python does.
    shown = fraction if nanoseconds % 1000 else fraction[: -len("000")]
    return f"{hours:02}:{minutes:02}:{seconds:02}{shown}"
