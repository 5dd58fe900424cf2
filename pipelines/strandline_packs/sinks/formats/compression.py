"""Compression levels of the sinks, and compressed streams whose level can be chosen."""

from __future__ import annotations

from typing import Annotated, Any, BinaryIO, Protocol, Self

import pyarrow as pa
from pydantic import AfterValidator, Field, ValidationInfo

# Greater zstd levels than 19 need more memory to decompress.
_HIGHEST = {"zstd": 19, "gzip": 9}
_FRAME_BYTES = 1 << 20  # bytes of uncompressed text per frame


def _check_level(level: int | None, info: ValidationInfo) -> int | None:
    """Reject a level that the compression does not support.

    The model must declare `compression` before this field, so that its value is known here.
    """
    compression = info.data.get("compression")
    if level is None or compression is None:  # a wrong compression has its own message
        return level
    highest = _HIGHEST.get(str(compression))
    if highest is None:
        msg = (
            f"requires `compression: zstd` or `gzip`, but it is {str(compression)!r}; change the "
            "compression or remove the level"
        )
        raise ValueError(msg)
    if level > highest:
        msg = f"must be at most {highest} with `compression: {compression}`"
        raise ValueError(msg)
    return level


CompressionLevel = Annotated[
    int | None,
    Field(
        ge=1,
        description="Compression level: 1 to 19 for `zstd`, 1 to 9 for `gzip`. Higher levels make "
        "smaller files and take longer.",
    ),
    AfterValidator(_check_level),
]


class _Writer(Protocol):
    def write(self, data: bytes, /) -> Any: ...  # noqa: ANN401 - the number of bytes, if at all


class ZstdFrames:
    """A stream of zstd frames of a level. Arrow's own streams have a fixed level.

    Args:
        file: receives the frames; the caller closes it.
    """

    def __init__(self, file: BinaryIO, level: int) -> None:
        self._file: _Writer = file
        self._codec = pa.Codec("zstd", compression_level=level)
        self._waiting = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def write(self, data: bytes, /) -> None:
        """Write a frame once enough text has accumulated."""
        self._waiting += data
        if len(self._waiting) >= _FRAME_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write(self._codec.compress(bytes(self._waiting), asbytes=True))
            self._waiting.clear()
