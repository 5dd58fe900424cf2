"""Files of any place and compression as one kind of binary stream.

It knows paths and URLs, nothing of what is in the files.
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

# Errors of reading a file: its place, or what it is packed in.
READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)
PART_AHEAD = 64 << 10  # for what is read in parts, here and there
RANGE_AHEAD = 8 << 20  # for what is read in a row, and not to the file's end
_CHUNK = 1 << 20
_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
PACKED = (".gz", *_CODECS)
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_TOO_WIDE = "Frame requires too much memory"
LEAST_WINDOW = 27  # zstd and Arrow take this much unasked
ZstdWindow = Annotated[
    int,
    Field(
        ge=LEAST_WINDOW,
        le=31,
        description="Largest window of a .zst file as a power of two: `zstd --long=31` writes up "
        "to 31. More than 27 takes as much memory, and the package backports.zstd.",
    ),
]


class UnreadableFileError(Exception):
    """A file that can't be read or understood; the message names it."""


class BadInput(StrEnum):
    """What becomes of a file, or a part of one, that can't be read or understood.

    An item's own `onError` is another matter: it speaks of rows that raise an error for any reason,
    and knows dead letters.
    """

    FAIL = "fail"
    DROP = "drop"


class _WideZstd(io.RawIOBase):
    """The bytes of a zstd file with larger windows than Arrow takes."""

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
    """A list is no longer the one that the run was planned with; the message names it."""


def open_binary(path: str, *, ahead: int | None = None) -> BinaryIO:
    """Return the bytes of a local path or an fsspec URL.

    Args:
        ahead: bytes that a store is asked for beyond those that are read; None: it is read to its
            end, and the store's library knows best.

    Raises:
        OSError: it can't be opened.
    """
    if is_url(path):
        return open_url(path, ahead=ahead)
    return open(path, "rb")


def digest_content(path: str) -> str:
    """Return a hex digest of a file's bytes (blake2b-128).

    Raises:
        OSError: it can't be read.
    """
    state = blake2b(digest_size=16)
    with open_binary(path) as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def digest_input(path: str) -> str:
    """Return the digest of a file that a parameter names; see `digest_content`.

    Raises:
        ValueError: it can't be read; the message says which and why.
    """
    try:
        return digest_content(path)
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(str(explain_error(path, error))) from error


@contextmanager
def open_decompressed(
    path: str, zstd_window: int = LEAST_WINDOW, *, ahead: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file's lines or bytes, decompressed where its suffix is .gz, .zst, .bz2 or .lz4.

    Args:
        zstd_window: largest window of a .zst file, as a power of two.
        ahead: see `open_binary`.

    Raises:
        OSError: it can't be opened.
        ImportError: the package is not installed that takes windows so large.
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
    """Explain an error that says which file and why, in one sentence."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if _TOO_WIDE in why:
        why += (
            "; its zstd window is larger than was allowed: set the reader's `zstdWindow`, up to 31"
        )
    return UnreadableFileError(f"{path}: {why}")
