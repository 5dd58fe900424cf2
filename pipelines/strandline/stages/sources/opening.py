"""Files of any place and compression as one kind of binary stream.

It knows paths and URLs, nothing of what is in the files.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import BinaryIO, cast

import pyarrow as pa

from strandline.stages.sources.globs import is_url
from strandline.storage.stores import open_url

# What reading a file may raise: its place, or what it is packed in.
READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)
_CHUNK = 1 << 20
_CODECS = {".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
PACKED = (".gz", *_CODECS)


class UnreadableFileError(Exception):
    """A file that can't be read or understood; the message names it."""


class ChangedListError(Exception):
    """A list is no longer the one that the run was planned with; the message names it."""


def open_binary(path: str) -> BinaryIO:
    """Return the bytes of a local path or an fsspec URL.

    Raises:
        OSError: it can't be opened.
    """
    if is_url(path):
        return open_url(path)
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
def open_decompressed(path: str) -> Iterator[BinaryIO]:
    """Open a file's lines or bytes, decompressed where its suffix is .gz, .zst, .bz2 or .lz4.

    Raises:
        OSError: it can't be opened.
    """
    suffix = path[path.rfind(".") :].lower()
    with open_binary(path) as file:
        if suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield cast("BinaryIO", unpacked)
        elif suffix in _CODECS:
            with io.BufferedReader(pa.CompressedInputStream(file, _CODECS[suffix])) as buffered:
                yield buffered
        else:
            yield file


def explain_error(path: str, error: BaseException) -> UnreadableFileError:
    """Explain an error that says which file and why, in one sentence."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return UnreadableFileError(f"{path}: {why}")
