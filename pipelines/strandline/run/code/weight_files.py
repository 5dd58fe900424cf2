"""Lists the files that a model file refers to: external data of ONNX, and shards of an index.

The module is pure: it gets bytes and returns names relative to the model's folder. It loads no
library for models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

WEIGHTS = (".onnx", ".index.json")  # suffixes of models that may refer to other files
# Messages of onnx.proto that may contain a tensor, with the numbers and messages of the relevant
# fields.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_KEY, _VALUE = 1, 2  # fields of an entry of external data
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # wire types of protobuf fields


def list_weights(name: str, data: memoryview) -> list[str]:
    """Return the files that a model's file refers to, or an empty list if it is not a model.

    Args:
        name: name of the file; its suffix selects the format.
    """
    try:
        if name.endswith(".onnx"):
            return sorted(set(_list_locations("model", data)))
        if name.endswith(".index.json"):
            return sorted(set(map(str, _read_index(data).values())))
    except (ValueError, LookupError, AttributeError, RecursionError):  # not a model
        pass
    return []


def _read_index(data: memoryview) -> dict[str, Any]:
    """Return the file of each tensor from an index that `transformers` writes beside shards."""
    weights: dict[str, Any] = json.loads(bytes(data))["weight_map"]
    return weights


def _list_locations(kind: str, data: memoryview) -> Iterator[str]:
    below = _FIELDS[kind]
    for number, value in _list_fields(data):
        inner = below.get(number)
        if inner == "entry":
            entry = dict(_list_fields(value))
            if bytes(entry.get(_KEY, b"")) == b"location":
                yield bytes(entry[_VALUE]).decode()
        elif inner is not None:
            yield from _list_locations(inner, value)


def _list_fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of a message that contain bytes, by number."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        # The lower three bits are the wire type of the field, the upper bits the field number.
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a field extends beyond the end of its message")
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind in {_EIGHT, _FOUR}:
            at += 8 if kind == _EIGHT else 4
        else:
            raise ValueError("unknown wire type of a field")


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:  # noqa: PLR2004 - without the bit that announces another byte
            return value, at
