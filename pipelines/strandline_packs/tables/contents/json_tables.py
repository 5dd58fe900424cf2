"""Parses JSON lines with Arrow's reader if the result certainly equals that of Python's parser.

Python parses line by line and defines the correct result: valid objects, exact numbers, column
types. Arrow needs a fifth of the time, but converts text to times, rounds large integers, and
accepts data after an object. Therefore Arrow's table is used only if none of these effects can have
occurred. The module must not depend on files, or the treatment of invalid lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

_PART_BYTES = 8 << 20
_MOST_BYTES = 1 << 30  # maximum size of a block, because Arrow's offsets have 31 bits
# Arrow's reader recurses for each level, and a stack overflow would kill the process.
_MOST_BRACKETS = 2000  # per line
_MOST_LEVELS = 64  # maximum nesting of a column
_LARGEST_EXACT = 2.0**53  # larger floats may be rounded integers
_NEGATIVE_ZERO = -(2**63)  # bits of -0.0; in JSON, `-0` is an integer
_LONGEST_PAUSE = 31
_OPEN, _CLOSE, _CR = b"{}\r"
_SAME_TYPES = (pa.types.is_null, pa.types.is_boolean, pa.types.is_int64, pa.types.is_string)


class JsonTables:
    """Parses blocks of similar lines. State from earlier blocks only saves time."""

    def __init__(self) -> None:
        self._texts: set[str] = set()  # names of columns with text that looks like times
        self._pause = self._next_pause = 0
        self._is_parted = True

    def parse(self, lines: Sequence[bytes | None]) -> pa.Table | None:
        """Return the lines as a table of several chunks, or None if Python's may differ from it.

        After a block that Arrow rejects, Arrow is skipped for a growing number of blocks, so that
        unsuitable files cost little extra time.

        Args:
            lines: lines without line ends; None for a line above the size limit.
        """
        if self._pause:
            self._pause -= 1
            return None
        table = self._read(lines)
        self._next_pause = 0 if table is not None else min(2 * self._next_pause + 1, _LONGEST_PAUSE)
        self._pause = self._next_pause
        return table

    def _read(self, lines: Sequence[bytes | None]) -> pa.Table | None:
        whole = [line for line in lines if line is not None]
        if len(whole) < len(lines):
            return None
        # Arrow needs three times the memory of a part.
        parts = []
        for part in _split(whole) if self._is_parted else [whole]:
            table = self._read_part(part)
            if table is None:
                return None
            parts.append(table)
        if all(part.schema.equals(parts[0].schema) for part in parts):
            return pa.concat_tables(parts)
        # Only together, the lines show the types of all columns, probably also in later blocks.
        self._is_parted = False
        return self._read_part(whole)

    def _read_part(self, lines: Sequence[bytes]) -> pa.Table | None:
        block = b"\n".join([*lines, b""])
        if len(block) > _MOST_BYTES or not _are_objects(block, lines):
            return None
        try:
            table = self._convert(block, json.loads(lines[0].decode()))
        except (pa.ArrowException, ValueError, RecursionError):
            return None
        # Arrow parses `{}{}` as two rows.
        return table if table is not None and table.num_rows == len(lines) else None

    def _convert(self, block: bytes, first: Mapping[str, Any]) -> pa.Table | None:
        texts = {name: pa.string() for name in first if name in self._texts}
        try:
            table = _read_block(block, texts)
        except pa.ArrowException:
            if not texts:
                raise
            self._texts.clear()  # in this block, the columns have other types
            texts = {}
            table = _read_block(block, texts)
        # Restore the order of appearance: Arrow's table starts with the columns of the given
        # schema.
        names = list(dict.fromkeys([*first, *table.column_names]))
        times = {
            field.name: _read_as_text(field.type)
            for field in table.schema
            if _holds_times(field.type)
        }
        if times:
            self._texts |= {name for name, kind in times.items() if pa.types.is_string(kind)}
            table = _read_block(block, texts | times)
        if set(names) != set(table.column_names):
            return None
        if any(table.column(name).num_chunks != 1 for name in names):
            return None
        columns = {name: table.column(name).chunk(0) for name in names}  # no copy
        # A column without values has the type null in Python, not the type of earlier blocks.
        for name in texts:
            if columns[name].null_count == len(columns[name]):
                columns[name] = pa.nulls(len(columns[name]))
        if not all(_is_exact(column) for column in columns.values()):
            return None
        exact = pa.table(columns)
        exact.validate(full=True)  # Arrow's reader does not check that text is UTF-8
        return exact


def _split(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the lines in parts of `_PART_BYTES`, and at least one part."""
    begin, size = 0, 0
    for at, line in enumerate(lines):
        if size > _PART_BYTES:
            yield lines[begin:at]
            begin, size = at, 0
        size += len(line)
    yield lines[begin:]


def _are_objects(block: bytes, lines: Sequence[bytes]) -> bool:
    """Return whether every line starts and ends an object, with limited nesting.

    Args:
        block: the lines, each with a line end.
    """
    if not lines:
        return False
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    content, ends = np.frombuffer(block, np.uint8), np.cumsum(sizes + 1) - 1
    last = content[ends - 1]
    is_cr = last == _CR
    if is_cr.any():  # lines that end in CR and LF; the first byte decides about a lone CR
        last = np.where(is_cr, content[ends - 2], last)
    if (content[ends - sizes] != _OPEN).any() or (last != _CLOSE).any():
        return False
    # Shorter lines cannot contain so many pairs of brackets.
    long = np.flatnonzero(sizes >= 2 * _MOST_BRACKETS)
    return all(
        lines[at].count(b"{") + lines[at].count(b"[") <= _MOST_BRACKETS for at in long.tolist()
    )


def _read_block(block: bytes, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(block),
        # Use one block: otherwise blocks infer different types. A worker has one core anyway.
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(kinds.items())) if kinds else None,
            unexpected_field_behavior="infer",
        ),
    )


def _holds_times(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_holds_times(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind))


def _read_as_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text instead of times."""
    if pa.types.is_list(kind):
        return pa.list_(_read_as_text(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([(field.name, _read_as_text(field.type)) for field in fields])
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _is_exact(values: pa.Array, level: int = 0) -> bool:
    """Return whether Python would read the same values."""
    kind = values.type
    if level > _MOST_LEVELS:
        return False
    if pa.types.is_struct(kind):
        return all(_is_exact(values.field(at), level + 1) for at in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _is_exact(values.values, level + 1)
    if pa.types.is_float64(kind):
        # NaN fails the comparison as well.
        is_small = pc.all(pc.less(pc.abs(values), _LARGEST_EXACT)).as_py()
        is_zero = pc.any(pc.equal(values.view(pa.int64()), _NEGATIVE_ZERO)).as_py()
        return is_small is not False and not is_zero
    return any(is_same(kind) for is_same in _SAME_TYPES)
