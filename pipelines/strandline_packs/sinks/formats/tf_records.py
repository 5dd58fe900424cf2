"""Encodes TFRecord files: `tf.train.Example` records with CRC-32C checksums.

TensorFlow has the only maintained writer, and is a hundred times as large as this format requires.
This module takes rows, returns bytes, and does no I/O. The module must not depend on files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.data.tables.columns import check_names
from strandline_packs.sinks.json_values import list_cells

Checksum = Callable[[bytes], int]
_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_MASK, _WORD = 0xA282EAD8, 0xFFFFFFFF  # TFRecord's mask for checksums; 32 bits
_SEPTET, _MORE = 0x7F, 0x80  # protobuf varints: 7 bits per byte, and a continuation bit
_SEPTETS = np.arange(10, dtype=np.uint64)  # a number takes ten bytes at most
# Tags of the first and second protobuf field of a message; a length and bytes follow.
_FIRST, _SECOND = b"\x0a", b"\x12"
_BYTES, _FLOATS, _INTEGERS = b"\x0a", b"\x12", b"\x1a"


class ListNullError(ValueError):
    """Raised if a list contains a null, which a feature can't store."""


class Feature(NamedTuple):
    """Encoding of a column.

    Attributes:
        kind: tag of the protobuf field.
        encode: encodes the values of one row, given as an array.
    """

    kind: bytes
    encode: Callable[[pa.Array], bytes]


def encode_records(table: pa.Table, checksum: Checksum) -> Iterator[bytes]:
    """Yield a record for each row, with its length and checksums.

    Args:
        checksum: computes the CRC-32C of bytes.

    Raises:
        ListNullError: a list has a null.
        ValueError: two columns share a name, or an integer exceeds the signed 64-bit range.
    """
    check_names(table.schema)
    # Sort the names: the order of columns must not change the bytes.
    columns = [_encode_column(table, name) for name in sorted(table.column_names)]
    for row in zip(*columns, strict=True) if columns else ():
        # An `Example` contains `Features`, a map whose entries have a key and a value.
        example = _delimit(_FIRST, b"".join(_delimit(_FIRST, entry) for entry in row))
        yield b"".join(_frame(example, checksum))


def find_records(content: bytes) -> list[int]:
    """Return the start of each record in a file, and the end of the last record."""
    starts = [0]
    while starts[-1] < len(content):
        (length,) = struct.unpack_from("<Q", content, starts[-1])
        starts.append(starts[-1] + _HEAD.size + length + _TAIL.size)
    return starts


def _frame(record: bytes, checksum: Checksum) -> Iterator[bytes]:
    length = struct.pack("<Q", len(record))
    yield _HEAD.pack(len(record), _mask(checksum(length)))
    yield record
    yield _TAIL.pack(_mask(checksum(record)))


def _mask(crc: int) -> int:
    """Mask a checksum as TFRecord requires, because a record may itself contain records."""
    return ((crc >> 15 | crc << 17) + _MASK) & _WORD


def _delimit(field: bytes, content: bytes) -> bytes:
    return b"".join((field, _encode_length(len(content)), content))


def _encode_length(length: int) -> bytes:
    septets = bytearray()
    while length > _SEPTET:
        septets.append(length & _SEPTET | _MORE)
        length >>= 7
    septets.append(length)
    return bytes(septets)


def _encode_column(table: pa.Table, name: str) -> Iterator[bytes]:
    """Yield the encoded feature of each row."""
    column = _unwrap(table[name])
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    feature = choose_feature(column.type.value_type if is_list else column.type)
    if feature is None:
        feature, is_list = _TEXTS, False
        column = pa.chunked_array([pa.array(list_cells(table, name), pa.string())])
    key = _delimit(_FIRST, name.encode())
    for chunk in column.chunks:
        for values in _list_values(chunk, name, is_list=is_list):
            content = feature.encode(values)
            yield key + _delimit(_SECOND, _delimit(feature.kind, content))


def _unwrap(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _list_values(chunk: pa.Array, name: str, *, is_list: bool) -> Iterator[pa.Array]:
    """Yield an array of values for each row, which is empty for a null."""
    if not is_list:
        for row in range(len(chunk)):
            yield chunk.slice(row, 1).drop_null()
        return
    for scalar in chunk:
        values = scalar.values
        if values is None:
            values = pa.array([], chunk.type.value_type)
        if values.null_count:
            msg = f"the column {name!r} has nulls in its lists, which TFRecord can't store"
            raise ListNullError(msg)
        yield values


def choose_feature(kind: pa.DataType) -> Feature | None:
    """Return the encoding of a type, or None if there is none."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _TEXTS
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _NUMBERS
    return _FRACTIONS if pa.types.is_floating(kind) else None


def _encode_texts(values: pa.Array) -> bytes:
    texts = (value.as_py() for value in values)
    raw = (text.encode() if isinstance(text, str) else text for text in texts)
    return b"".join(_delimit(_FIRST, each) for each in raw)


def _encode_numbers(values: pa.Array) -> bytes:
    numbers = pc.cast(values, pa.int64()).to_numpy(zero_copy_only=False)
    return _pack(_pack_integers(numbers))


def _encode_fractions(values: pa.Array) -> bytes:
    return _pack(values.to_numpy(zero_copy_only=False).astype("<f4").tobytes())


def _pack(content: bytes) -> bytes:
    return _delimit(_FIRST, content) if content else b""


def _pack_integers(numbers: npt.NDArray[np.int64]) -> bytes:
    """Encode integers as consecutive protobuf varints."""
    # Protobuf encodes negative integers as unsigned 64-bit integers, which take ten bytes.
    rest = numbers.astype(np.int64).view(np.uint64)[:, None] >> (_SEPTETS * np.uint64(7))
    is_more = (rest >> np.uint64(7) > 0) & (_SEPTETS[-1] > _SEPTETS)
    is_there = np.column_stack([np.ones(len(numbers), bool), is_more[:, :-1]])
    septets = rest & np.uint64(_SEPTET) | is_more.astype(np.uint64) << np.uint64(7)
    content: bytes = septets.astype(np.uint8)[is_there].tobytes()
    return content


_TEXTS = Feature(_BYTES, _encode_texts)
_NUMBERS = Feature(_INTEGERS, _encode_numbers)
_FRACTIONS = Feature(_FLOATS, _encode_fractions)
