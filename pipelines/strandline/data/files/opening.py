"""Opens files behind paths and URLs as binary streams, and decompresses them.

The module must not depend on the content of files.
"""

from __future__ import annotations

import gzip
import importlib
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any, BinaryIO, cast

import pyarrow as pa
from pydantic import Field

from strandline.data.files.globs import is_url
from strandline.storage.access.stores import open_url

# Errors that are raised while a file is read or decompressed.
READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)
# Numbers of bytes to read ahead.
PART_AHEAD = 64 << 10  # for random access
RANGE_AHEAD = 8 << 20  # for sequential reads that stop before the end of the file
_CHUNK = 1 << 20
_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
PACKED = (".gz", *_CODECS)
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
# Message of zstd if the window exceeds the limit.
_TOO_WIDE = "Frame requires too much memory"
LEAST_WINDOW = 27  # zstd and Arrow accept this window by default
ZstdWindow = Annotated[
    int,
    Field(
        ge=LEAST_WINDOW,
        le=31,
        description="Largest window of a .zst file, as a power of two: `zstd --long=31` writes up "
        "to 31. The window is held in memory. Values above 27 need the package "
        "backports.zstd.",
    ),
]


class UnreadableFileError(Exception):
    """Raised if a file can't be read or parsed. The message names the file."""


class BadInput(StrEnum):
    """Options for files, or parts of files, that can't be read or parsed.

    The setting is independent of a stage's own `onError`, which applies to rows with any error, and
    supports dead letters.
    """

    FAIL = "fail"
    DROP = "drop"


class _WideZstd(io.RawIOBase):
    """Decompresses a zstd file whose window is larger than Arrow accepts."""

    def __init__(self, file: BinaryIO, window: int) -> None:
        super().__init__()
        zstd = importlib.import_module(_ZSTD)
        self._error: type[Exception] = zstd.ZstdError
        options = {zstd.DecompressionParameter.window_log_max: window}
        self._unpacked = zstd.ZstdFile(file, options=options)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - typeshed has no buffer of 3.11
        try:
            piece = self._unpacked.read1(len(buffer))
        except self._error as error:
            raise OSError(str(error)) from error
        buffer[: len(piece)] = piece
        return len(piece)


class ChangedListError(Exception):
    """Raised if a list file has changed since the run was planned. The message names the file."""


def open_binary(path: str, *, ahead: int | None = None) -> BinaryIO:
    """Open a local path or an fsspec URL for reading.

    Args:
        ahead: bytes that a store may read ahead. None means the default of the store's library,
            which suits reads to the end.

    Raises:
        OSError: if the file can't be opened.
    """
    if is_url(path):
        return open_url(path, ahead=ahead)
    return open(path, "rb")


def digest_content(path: str) -> str:
    """Return a hex digest of a file's bytes (blake2b-128).

    Raises:
        OSError: if the file can't be read.
    """
    state = blake2b(digest_size=16)
    with open_binary(path) as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def digest_input(path: str) -> str:
    """Return the digest of a file that a parameter names; see `digest_content`.

    Raises:
        ValueError: if the file can't be read; the message names the file and the reason.
    """
    try:
        return digest_content(path)
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(str(explain_error(path, error))) from error


@contextmanager
def open_decompressed(
    path: str, zstd_window: int = LEAST_WINDOW, *, ahead: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file, and decompress it if its suffix is .gz, .zst, .bz2, or .lz4.

    Args:
        zstd_window: largest accepted window of a .zst file, as a power of two.
        ahead: see `open_binary`.

    Raises:
        OSError: if the file can't be opened.
        ImportError: if a large window needs a package that is not installed.
    """
    suffix = path[path.rfind(".") :].lower()
    with open_binary(path, ahead=ahead) as file:
        if suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield cast("BinaryIO", unpacked)
        elif suffix == ".zst" and zstd_window > LEAST_WINDOW:
            with io.BufferedReader(_WideZstd(file, zstd_window)) as buffered:
                yield cast("BinaryIO", buffered)
        elif suffix in _CODECS:
            with io.BufferedReader(pa.CompressedInputStream(file, _CODECS[suffix])) as buffered:
                yield buffered
        else:
            yield file


def explain_error(path: str, error: BaseException) -> UnreadableFileError:
    """Return a readable error that names the file and the reason, in one sentence."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if _TOO_WIDE in why:
        why += "; its zstd window exceeds the limit; set the reader's `zstdWindow`, up to 31"
    return UnreadableFileError(f"{path}: {why}")
