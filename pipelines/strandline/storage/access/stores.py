"""Opens stores behind URLs, with the same caching rules for all fsspec file systems.

Listings and file lookups always query the store. Libraries would cache both for the life of the
process, but a driver runs while others write and remove files. Only connections may be cached. The
access options apply to the whole process, so a process can serve only one pipeline at a time. The
module must not depend on the data.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import split_protocol

from strandline.storage.access.refusals import (
    GoogleAnswers,
    describe_store_error,
    is_refusal,
    naming_rejection,
)
from strandline.storage.access.store_access import StoreAccess, build_arguments

_CHAIN = "::"
_WEB = ("http://", "https://")
_PIECE = 1 << 20
_ACCESS: dict[str, StoreAccess] = {}
_GOOGLE = {"session_kwargs": {"raise_for_status": GoogleAnswers()}}
# Options that are always passed to the libraries of Google's stores.
_GIVEN: dict[str, dict[str, Any]] = dict.fromkeys(("gs", "gcs"), _GOOGLE)


def use_access(access: Mapping[str, StoreAccess]) -> None:
    """Set the access options of a pipeline, replacing all previous options.

    Args:
        access: options by URL prefix. A prefix names a folder or a file.
    """
    _ACCESS.clear()
    _ACCESS.update(access)


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, without cached listings, and the path in the file system.

    Raises:
        ValueError, ImportError: if no library can open the URL; see `protocols.find_lack`.
        PermissionError: if an environment variable for a secret is not set.
    """
    # In a chained URL, the protocol before `::` wraps the rest: as a file cache, or as an archive.
    # Do not reuse such a file system, which may cache files or listings.
    is_chain = _CHAIN in url
    options = dict(map(_choose_options, url.split(_CHAIN)))
    try:
        found = fsspec.core.url_to_fs(url, skip_instance_cache=is_chain, **options)
    except TypeError:  # this file system passes its options on to another library
        if any(_find_access(part) for part in url.split(_CHAIN)):
            raise  # never fall back to another account than configured
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    filesystem, root = found
    return refresh(filesystem), str(root)


def open_url(url: str, mode: str = "rb", *, ahead: int | None = None) -> BinaryIO:
    """Open the current content of a URL for reading, or for writing with `wb`.

    Files opened for reading are seekable. If a web server reports no length or does not support
    range requests, the whole file is first copied to a temporary file on this machine.

    Args:
        ahead: bytes to read ahead, or None for the default of the store's library, which is up to
            50 MiB.

    Raises:
        OSError: if the URL can't be opened. The store's library may raise other errors.
        CredentialsRefusedError: if the store rejects the credentials, on opening or during a read.
    """
    # A disk cache rejects a file that was cached with another block size.
    ahead = None if "::" in url else ahead
    if not url.startswith(_WEB):  # a website may refuse access to a single page
        return _open_watched(url, mode, ahead)
    filesystem, root = open_store(url)
    opened = filesystem.open(root, mode, block_size=ahead)
    if mode != "rb" or _gives_parts(opened, url):
        return cast("BinaryIO", opened)
    size = opened.size
    opened.close()
    return _copy_whole(filesystem.open(root, mode, block_size=0), url, size)


def _open_watched(url: str, mode: str, ahead: int | None) -> BinaryIO:
    with naming_rejection(url):
        filesystem, root = open_store(url)
        opened = _open_at(filesystem, root, mode, ahead)
    cache: Any = getattr(opened, "cache", None)  # only files of remote stores have a cache
    if hasattr(cache, "fetcher"):
        cache.fetcher = _watch(cache.fetcher, url)
    return cast("BinaryIO", opened)


def _open_at(filesystem: Any, root: str, mode: str, ahead: int | None) -> Any:  # noqa: ANN401 - fsspec has no types
    """Open a file. If opening fails, try a small read, because its error has the store's message.

    Opening only requests the size, and the error of that request has no message.
    """
    try:
        return filesystem.open(root, mode, block_size=ahead)
    except Exception as error:  # each store library has its own error classes
        if mode != "rb" or not (is_refusal(error) or isinstance(error, OSError)):
            raise
        refused = error
    filesystem.cat_file(root, start=0, end=1)  # raises an error with the store's message
    raise refused


def _watch(fetch: Callable[..., bytes], url: str) -> Callable[..., bytes]:
    """Wrap a function that reads a range of a file, so that rejected credentials are explained."""

    def watched(*args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401 - whatever a cache asks for
        with naming_rejection(url):
            return fetch(*args, **kwargs)

    return watched


def _gives_parts(file: Any, url: str) -> bool:  # noqa: ANN401 - fsspec has no types
    size = getattr(file, "size", 0)
    if not size or not url.startswith(_WEB):
        return size is not None
    try:
        file._fetch_range(size - 1, size)  # noqa: SLF001 - asking is the only way to know
    except ValueError:  # the server ignores range requests and sends the whole file
        return False
    return True


def _copy_whole(stream: Any, url: str, size: int | None) -> BinaryIO:  # noqa: ANN401 - as above
    """Copy a stream to a temporary file, which is deleted on close."""
    copied = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with stream:
            while piece := stream.read(_PIECE):
                copied.write(piece)
        if size is not None and copied.tell() != size:
            msg = f"only {copied.tell():,} of {size:,} bytes arrived"
            raise ConnectionError(msg)  # noqa: TRY301 - it gets the URL below
    except Exception as error:  # the HTTP library has its own error classes
        copied.close()
        msg = f"{url}: can't be read to its end ({describe_store_error(error)})"
        raise OSError(msg) from error
    copied.seek(0)
    return cast("BinaryIO", copied)


def refresh(filesystem: Any) -> Any:  # noqa: ANN401 - fsspec has no types
    """Drop the cached listings of a file system, and return the file system.

    Some file systems cache listings regardless of the options, so call this function before every
    lookup. Every request of Google's library would retry for half a minute if no token is
    available, so request a token here first, once.
    """
    filesystem.invalidate_cache()
    renew = getattr(getattr(filesystem, "credentials", None), "maybe_refresh", None)
    if renew is not None:
        renew()
    return filesystem


def _choose_options(part: str) -> tuple[str, dict[str, Any]]:
    """Return the protocol of one part of a chained URL, and the options for its library."""
    # A part without `://` is a lone protocol, such as `simplecache`, or the path of a local file.
    found = split_protocol(part)[0]
    protocol = str(found or (part if part.isalpha() else "file"))
    access = _find_access(part)
    chosen = {} if access is None else build_arguments(protocol, access, os.environ)
    return protocol, {"use_listings_cache": False, **_GIVEN.get(protocol, {}), **chosen}


def _find_access(url: str) -> StoreAccess | None:
    fitting = [at for at in _ACCESS if url == at or url.startswith(at.rstrip("/") + "/")]
    return _ACCESS[max(fitting, key=len)] if fitting else None
