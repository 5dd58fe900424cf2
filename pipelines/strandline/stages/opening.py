"""Files of any place and compression as one kind of binary stream.

It knows paths and URLs, nothing of what is in the files.
"""

from __future__ import annotations

import gzip
from typing import BinaryIO, cast

import fsspec
import pyarrow as pa

from strandline.stages.globs import is_url

_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


class UnreadableFileError(Exception):
    """A file that can't be read or understood; the message names it."""


def open_binary(path: str) -> BinaryIO:
    """The bytes of a local path or an fsspec URL.

    Raises:
        OSError: it can't be opened.
    """
    if is_url(path):
        return cast("BinaryIO", fsspec.open(path, "rb").open())
    return open(path, "rb")


def open_decompressed(path: str) -> BinaryIO:
    """The bytes of a file, decompressed where its suffix is .gz, .zst, .bz2 or .lz4.

    Raises:
        OSError: it can't be opened.
    """
    file = open_binary(path)
    suffix = path[path.rfind(".") :].lower()
    if suffix == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file, mode="rb"))
    if suffix in _CODECS:
        return cast("BinaryIO", pa.CompressedInputStream(file, _CODECS[suffix]))
    return file


def explain_error(path: str, error: BaseException) -> UnreadableFileError:
    """An error that says which file and why, in one sentence."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return UnreadableFileError(f"{path}: {why}")
