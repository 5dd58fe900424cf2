"""Encodes shards and the index of MosaicML streaming data sets, version 2 of MDS.

The format is small, and MosaicML's own library needs PyTorch even for writing. This module takes
rows, returns bytes, and does no I/O. The module must not depend on files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from strandline.data.tables.columns import check_names
from strandline_packs.sinks.json_values import list_cells

_WORD = np.dtype("<u4")
_MOST = (1 << 32) - 1  # maximum value of an offset
_SIZE_LIMIT = 1 << 26  # required in the index; readers ignore it

_NUMBERS = {
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
}


class ShardError(ValueError):
    """Raised if the format can't store some rows."""


class MdsColumn(NamedTuple):
    """Encoding of a column.

    Attributes:
        name: name of the column.
        encoding: name of the encoding for readers.
        size: bytes of each value, or None if the size varies.
        encode: encodes all values.
    """

    name: str
    encoding: str
    size: int | None
    encode: Callable[[pa.Table], Iterator[bytes]]


class MdsShard(NamedTuple):
    """The parts of a shard.

    Attributes:
        config: description of the columns, JSON.
        samples: bytes of each row.
    """

    config: bytes
    samples: list[bytes]

    def format(self) -> bytes:
        """Return the bytes of the file.

        Raises:
            ShardError: the shard exceeds the range of its offsets.
        """
        count = len(self.samples)
        # The header has the number of samples, the offset of each sample, and the offset of the
        # end.
        begin = _WORD.itemsize * (count + 2) + len(self.config)
        ends = np.cumsum([begin, *map(len, self.samples)], dtype=np.int64)
        if ends[-1] > _MOST:
            msg = (
                f"a shard of MDS must have less than 4 GiB, not {ends[-1]:,} bytes; write fewer "
                "rows to each"
            )
            raise ShardError(msg)
        head = np.concatenate([[count], ends]).astype(_WORD).tobytes()
        return b"".join((head, self.config, *self.samples))


def encode_table(table: pa.Table) -> MdsShard:
    """Encode the rows of a table as a shard.

    Raises:
        ShardError: a number is null, which MDS can't store.
        ValueError: two columns share a name.
    """
    check_names(table.schema)
    # Sort by name, because MosaicML's writer stores columns in this order.
    columns = [choose_column(field) for field in sorted(table.schema, key=lambda each: each.name)]
    values = [column.encode(table) for column in columns]
    is_free = [column.size is None for column in columns]
    samples = []
    for row in zip(*values, strict=True) if columns else ():
        # A sample starts with the sizes of all values of variable size.
        sizes = [len(part) for part, free in zip(row, is_free, strict=True) if free]
        samples.append(b"".join((np.array(sizes, _WORD).tobytes(), *row)))
    return MdsShard(_format_config(columns), samples)


def parse_shard(content: bytes) -> MdsShard:
    """Return the parts of a shard."""
    (count,) = np.frombuffer(content, _WORD, 1)
    ends = np.frombuffer(content, _WORD, int(count) + 1, _WORD.itemsize).tolist()
    config = content[_WORD.itemsize * (int(count) + 2) : ends[0]]
    samples = [content[begin:end] for begin, end in pairwise(ends)]
    return MdsShard(config, samples)


def read_config(read: Callable[[int, int], bytes]) -> bytes:
    """Return the description of a shard's columns.

    Args:
        read: returns the bytes of the file between two positions.
    """
    count, begin = np.frombuffer(read(0, 2 * _WORD.itemsize), _WORD).tolist()
    return read(_WORD.itemsize * (count + 2), begin)


def format_entry(name: str, size: int, rows: int, config: bytes) -> str:
    """Format the entry of a shard in the index of the data set."""
    facts: dict[str, Any] = {
        "raw_data": {"basename": name, "bytes": size, "hashes": {}},
        "samples": rows,
        "zip_data": None,
    }
    return json.dumps(json.loads(config) | facts, sort_keys=True)


def choose_column(field: pa.Field) -> MdsColumn:
    """Return the encoding of a column. Types without an MDS encoding become JSON."""
    name, kind = field.name, field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return MdsColumn(name, "str", None, lambda table: _list_texts(table, name))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return MdsColumn(name, "bytes", None, lambda table: _list_bytes(table, name))
    if kind in _NUMBERS:
        return _make_numbers(name, _NUMBERS[kind])
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_list and kind.value_type in _NUMBERS:
        return _make_arrays(name, _NUMBERS[kind.value_type])
    return MdsColumn(name, "json", None, lambda table: map(str.encode, list_cells(table, name)))


def _make_numbers(name: str, number: str) -> MdsColumn:
    size = np.dtype(number).itemsize
    return MdsColumn(name, number, size, lambda table: _list_numbers(table, name, number))


def _make_arrays(name: str, number: str) -> MdsColumn:
    encoding = f"ndarray:{number}"
    return MdsColumn(name, encoding, None, lambda table: _list_arrays(table, name, number))


def _format_config(columns: Sequence[MdsColumn]) -> bytes:
    facts = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": _SIZE_LIMIT,
        "column_names": [column.name for column in columns],
        "column_encodings": [column.encoding for column in columns],
        "column_sizes": [column.size for column in columns],
    }
    return json.dumps(facts, sort_keys=True).encode()


def _list_texts(table: pa.Table, name: str) -> Iterator[bytes]:
    return ((value.as_py() or "").encode() for value in table[name])


def _list_bytes(table: pa.Table, name: str) -> Iterator[bytes]:
    return (value.as_py() or b"" for value in table[name])


def _list_numbers(table: pa.Table, name: str, number: str) -> Iterator[bytes]:
    if table[name].null_count:
        msg = (
            f"the column {name!r} has nulls, which MDS can't store among numbers; fill them, or "
            "leave the column out with `select-columns`"
        )
        raise ShardError(msg)
    for chunk in table[name].chunks:
        values = _unwrap(chunk).to_numpy(zero_copy_only=False)
        for value in values.astype(_little(number)):
            yield value.tobytes()


def _list_arrays(table: pa.Table, name: str, number: str) -> Iterator[bytes]:
    """Yield the length and the values of each list. A null becomes an empty list."""
    for value in table[name]:
        items = pa.array([], value.type.value_type) if value.values is None else value.values
        # MDS integers cannot be null. A null among floats becomes NaN.
        if items.null_count and not pa.types.is_floating(items.type):
            msg = f"the column {name!r} has nulls in its lists, which MDS can't store"
            raise ShardError(msg)
        values = items.to_numpy(zero_copy_only=False).astype(_little(number), copy=False)
        # The length takes 1, 2, 4, or 8 bytes, as few as needed.
        length, power = len(values), 0
        while length >= 1 << (8 << power):
            power += 1
        shape = length.to_bytes(1 << power, "little")
        # First byte: the number of dimensions (1), and the width of the length as a power of two.
        yield bytes([1 << 2 | power]) + shape + values.tobytes()


def _unwrap(values: pa.Array) -> pa.Array:
    kind = values.type
    return values.dictionary_decode() if pa.types.is_dictionary(kind) else values


def _little(number: str) -> np.dtype[Any]:
    return np.dtype(number).newbyteorder("<")
