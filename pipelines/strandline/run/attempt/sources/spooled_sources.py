"""Packs sources into bytes for a temporary database, and unpacks them without running code.

Plain values and tables are packed. All other data of sources stays in memory, because only the
process that created such data can interpret it.
"""

from __future__ import annotations

from typing import Any

import msgpack
import pyarrow as pa

from strandline.plan.stages.ends import Source

_TABLE = 1
_ERRORS = "surrogatepass"  # keys may be file names that are not valid text


class SpooledSources:
    """Packs sources under numbers. Sources that can't be packed stay in memory."""

    def __init__(self) -> None:
        self._kept: dict[int, Source] = {}

    def __len__(self) -> int:
        """Return the number of sources that could not be packed."""
        return len(self._kept)

    def pack(self, number: int, source: Source) -> bytes | None:
        """Return the bytes of a source, or None if the source stays in memory."""
        try:
            # Use strict types: otherwise, unpacking would return a list for a tuple, and a base
            # class for a subclass.
            packed: bytes = msgpack.packb(
                list(source), default=_pack, strict_types=True, unicode_errors=_ERRORS
            )
        except (TypeError, ValueError, OverflowError, RecursionError):
            self._kept[number] = source
            return None
        return packed

    def unpack(self, number: int, packed: bytes | None) -> Source:
        """Return the source with a number."""
        if packed is None:
            return self._kept.pop(number)
        parts = msgpack.unpackb(
            packed, ext_hook=_read, strict_map_key=False, unicode_errors=_ERRORS
        )
        return Source(*parts)


def _pack(value: Any) -> msgpack.ExtType:  # noqa: ANN401 - whatever is no plain value
    if type(value) is not pa.Table:
        msg = f"{type(value).__name__} is not a plain value"
        raise TypeError(msg)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write_table(value)
    return msgpack.ExtType(_TABLE, sink.getvalue().to_pybytes())


def _read(_code: int, content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
