"""Converts JSON rows to a table, and reports the rows that do not fit.

A column has one type. A row with a value of another type, or with a value that no Arrow type can
store, is reported separately instead of failing its whole file. The module must not depend on
files, or the treatment of rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from strandline.data.tables.conforming import SchemaMisfitError, conform_values
from strandline.data.tables.schemas import NOT_THERE

Row = Mapping[str, Any]

_LARGEST = 2**63 - 1  # largest signed 64-bit integer
_LARGEST_EXACT = 2**53  # floats represent integers exactly up to this limit
_ARROW_ERRORS = (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError, TypeError)
_OTHER_TYPE = "value of another type than its column"
_NAMES = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "an object",
    list: "a list",
}


class RowMisfit(NamedTuple):
    """Reason why a row does not fit into a table.

    Attributes:
        column: name of the column. `a.b` is the field `b` in the objects of `a`, and `a[]` is an
            item in the lists of `a`.
        reason: category of the reason, for counters.
        details: the value and the expected type, for messages.
    """

    column: str
    reason: str
    details: str


def build_table(rows: Sequence[Row]) -> tuple[pa.Table | None, dict[int, RowMisfit]]:
    """Return a table of the fitting rows, and the misfits by position.

    Most rows fit, so rows are only examined after Arrow rejects the whole batch.
    """
    try:
        return _convert(rows), {}
    except _ARROW_ERRORS:
        misfits = find_misfits(rows)
    fitting = [at for at in range(len(rows)) if at not in misfits]
    while fitting:
        try:
            return _convert([rows[at] for at in fitting]), misfits
        except _ARROW_ERRORS as error:
            at = _find_first(rows, fitting)
            misfits[at] = RowMisfit("", "value that Arrow has no form for", str(error))
            fitting.remove(at)
    return None, misfits


def build_conformed(
    rows: Sequence[Row], schema: pa.Schema
) -> tuple[pa.Table | None, dict[int, RowMisfit]]:
    """Return a table of the rows that fit a schema, and the misfits by position."""
    misfits: dict[int, RowMisfit] = {}
    names = set(schema.names)
    for at, row in enumerate(rows):
        if name := next((name for name in row if name not in names), None):
            misfits[at] = RowMisfit(name, "column that is not in the schema", NOT_THERE)
    columns = {}
    for field in schema:
        values = [row.get(field.name) for row in rows]
        columns[field.name], found = _conform(field, values)
        misfits = found | misfits
    fitting = [at for at in range(len(rows)) if at not in misfits]
    if not fitting:
        return None, misfits
    return pa.table(columns, schema=schema).take(fitting), misfits


def _conform(
    field: pa.Field, values: Sequence[Any]
) -> tuple[pa.ChunkedArray, dict[int, RowMisfit]]:
    """Return the values as a column with nulls for misfits, and the misfits by position."""
    try:
        return conform_values(field.name, pa.chunked_array([pa.array(values)]), field.type), {}
    except (*_ARROW_ERRORS, SchemaMisfitError):
        pass  # values may be valid separately even if Arrow rejects the column
    misfits: dict[int, RowMisfit] = {}
    chunks = []
    for at, value in enumerate(values):
        try:
            column = pa.chunked_array([pa.array([value])])
            chunks += conform_values(field.name, column, field.type).chunks
        except SchemaMisfitError as error:
            misfits[at] = RowMisfit(error.column, _OTHER_TYPE, error.details)
        except _ARROW_ERRORS as error:
            misfits[at] = _explain_value(field.name, value, error)
        if at in misfits:
            chunks.append(pa.nulls(1, field.type))
    return pa.chunked_array(chunks, field.type), misfits


def _explain_value(name: str, value: object, error: Exception) -> RowMisfit:
    values = list(_list_values({name: value}))
    untyped = next((found for each in values if (found := _find_untyped(*each))), None)
    return (
        untyped
        or _note_kinds(0, values, defaultdict(dict))
        or RowMisfit(name, "value that Arrow has no form for", str(error))
    )


def _convert(rows: Sequence[Row]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _find_first(rows: Sequence[Row], fitting: Sequence[int]) -> int:
    """Return the first row that does not fit the rows before it."""
    low, high = 0, len(fitting)  # invariant: the first `low` rows fit, and the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _convert([rows[at] for at in fitting[:middle]])
            low = middle
        except _ARROW_ERRORS:
            high = middle
    return fitting[high - 1]


def find_misfits(rows: Sequence[Row]) -> dict[int, RowMisfit]:
    """Return the rows with values that Arrow can't store, or whose type is rare in the column.

    If two types are equally frequent, the type that occurs first is the column's type.
    """
    misfits: dict[int, RowMisfit] = {}
    kinds: defaultdict[str, dict[int, str]] = defaultdict(dict)
    fractions: defaultdict[str, set[int]] = defaultdict(set)
    large: defaultdict[str, set[int]] = defaultdict(set)
    for at, row in enumerate(rows):
        values = list(_list_values(row))
        misfit = next((found for each in values if (found := _find_untyped(*each))), None)
        if misfit is not None:
            misfits[at] = misfit
            continue
        misfit = _note_kinds(at, values, kinds)
        if misfit is not None:
            misfits[at] = misfit
            continue
        for path, value in values:
            if isinstance(value, float):
                fractions[path].add(at)
            elif isinstance(value, int) and abs(value) > _LARGEST_EXACT:
                large[path].add(at)
    misfits |= _find_rare_kinds(kinds, misfits)
    return misfits | _find_inexact(fractions, large, misfits)


def _note_kinds(
    at: int, values: Iterable[tuple[str, Any]], kinds: Mapping[str, dict[int, str]]
) -> RowMisfit | None:
    """Note the kind of a row in each column. Return a misfit if a column has two kinds in it."""
    own: dict[str, str] = {}
    for path, value in values:
        kind = _NAMES.get(type(value))
        if kind and own.setdefault(path, kind) != kind:
            return RowMisfit(path, "values of two types in a list", f"{own[path]} and {kind}")
    for path, kind in own.items():
        kinds[path][at] = kind
    return None


def _list_values(row: Row) -> Iterator[tuple[str, Any]]:
    """Yield the values of a row with their columns; uses a stack for deep nesting."""
    stack: list[tuple[str, Any]] = [(name, value) for name, value in reversed(list(row.items()))]
    while stack:
        path, value = stack.pop()
        yield path, value
        if isinstance(value, dict):
            stack += [(f"{path}.{name}", inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(f"{path}[]", inner) for inner in reversed(value)]


def _find_untyped(path: str, value: object) -> RowMisfit | None:
    if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
        return RowMisfit(path, "whole number beyond 63 bits", _describe_number(value))
    if _has_surrogate(path) or (isinstance(value, str) and _has_surrogate(value)):
        return RowMisfit(
            path, "half a surrogate", "an unpaired surrogate, which UTF-8 can't encode"
        )
    return None


def _describe_number(value: int) -> str:
    return f"a whole number of {value.bit_length()} bits, more than the limit of 63"


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _find_rare_kinds(
    kinds: Mapping[str, Mapping[int, str]], misfits: Mapping[int, RowMisfit]
) -> dict[int, RowMisfit]:
    """Return the rows with a value whose type is not the most frequent in its column."""
    found: dict[int, RowMisfit] = {}
    for path, by_row in kinds.items():
        others = {at: kind for at, kind in by_row.items() if at not in misfits and at not in found}
        usual = next((kind for kind, _ in Counter(others.values()).most_common(1)), "")
        for at, kind in others.items():
            if kind != usual:
                found[at] = RowMisfit(path, _OTHER_TYPE, f"{kind}, where most rows have {usual}")
    return found


def _find_inexact(
    fractions: Mapping[str, set[int]],
    large: Mapping[str, set[int]],
    misfits: Mapping[int, RowMisfit],
) -> dict[int, RowMisfit]:
    """Return rows whose large integers or floats would lose digits in a shared column."""
    found: dict[int, RowMisfit] = {}
    for path in fractions.keys() & large.keys():
        gone = misfits.keys() | found.keys()
        broken, whole = fractions[path] - gone, large[path] - gone
        if not (broken and whole):
            continue
        details = "a whole number beyond 53 bits and a fraction are in one column"
        # Report the smaller of the two groups of rows.
        for at in min((whole, broken), key=len):
            found[at] = RowMisfit(path, "number that would lose digits", details)
    return found
