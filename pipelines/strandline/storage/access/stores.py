"""How a store behind a URL is opened, and what may be kept of it: one rule for all of fsspec.

A listing and a look at a file always ask the store. Libraries keep both for as long as a process
lives, and a driver outlives what others write and remove meanwhile. What may be kept is the
connection. The account for stores is set for a whole process, which works for one pipeline at a
time. It must not know what is read or written.
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
# Options that the libraries of some stores always get.
_GIVEN: dict[str, dict[str, Any]] = dict.fromkeys(("gs", "gcs"), _GOOGLE)


def use_access(access: Mapping[str, StoreAccess]) -> None:
    """Have stores asked from now on as a pipeline says; what another said before is forgotten.

    Args:
        access: by the beginning of the URLs that it is for: a folder, or a file.
    """
    _ACCESS.clear()
    _ACCESS.update(access)


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, as it is now, and the path on it.

    Raises:
        ValueError, ImportError: nothing here opens the URL; see `protocols.find_lack`.
        PermissionError: a variable that is to have a secret is not set here.
    """
    # The protocol before `::` keeps files, listings or an archive of what stands behind.
    is_chain = _CHAIN in url
    options = dict(map(_choose_options, url.split(_CHAIN)))
    try:
        found = fsspec.core.url_to_fs(url, skip_instance_cache=is_chain, **options)
    except TypeError:  # a file system that hands its options to another library
        if any(_find_access(part) for part in url.split(_CHAIN)):
            raise  # never by another account than was set
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    filesystem, root = found
    return refresh(filesystem), str(root)


def open_url(url: str, mode: str = "rb", *, ahead: int | None = None) -> BinaryIO:
    """Return the bytes at a URL, as they are now; with `wb` what writes them.

    What can be read is seekable. A web server that tells no length, or gives no parts, is read
    once, whole, into a file on this machine's disk.

    Args:
        ahead: bytes that are fetched after those that are asked for; None: as many as the library
            of the store does by itself, which is up to 50 MiB.

    Raises:
        OSError: it can't be opened; and whatever the library of its store raises.
        CredentialsRefusedError: a store does not let us in, now or while it is read.
    """
    # A cache on this machine's disk refuses a file that it has kept in blocks of another size.
    ahead = None if "::" in url else ahead
    if not url.startswith(_WEB):  # where a refusal may be one page's
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
    cache: Any = getattr(opened, "cache", None)  # the cache of a file that was fetched from a store
    if hasattr(cache, "fetcher"):
        cache.fetcher = _watch(cache.fetcher, url)
    return cast("BinaryIO", opened)


def _open_at(filesystem: Any, root: str, mode: str, ahead: int | None) -> Any:  # noqa: ANN401 - fsspec has no types
    """Open a file, or raise why it can't be: a store that is asked for its size has no words."""
    try:
        return filesystem.open(root, mode, block_size=ahead)
    except Exception as error:  # store libraries have errors of their own
        if mode != "rb" or not (is_refusal(error) or isinstance(error, OSError)):
            raise
        refused = error
    filesystem.cat_file(root, start=0, end=1)  # an error of this read has the store's words
    raise refused


def _watch(fetch: Callable[..., bytes], url: str) -> Callable[..., bytes]:
    """Return what reads a part of a file, with a sentence where credentials are refused by now."""

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
    except ValueError:  # the server sends all of it, whatever part is asked for
        return False
    return True


def _copy_whole(stream: Any, url: str, size: int | None) -> BinaryIO:  # noqa: ANN401 - as above
    """Return a stream's bytes as a file that goes when it is closed."""
    copied = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with stream:
            while piece := stream.read(_PIECE):
                copied.write(piece)
        if size is not None and copied.tell() != size:
            msg = f"it has {size:,} bytes, and {copied.tell():,} came"
            raise ConnectionError(msg)  # noqa: TRY301 - it gets the URL below
    except Exception as error:  # the web's library has errors of its own
        copied.close()
        msg = f"{url}: can't be read to its end ({describe_store_error(error)})"
        raise OSError(msg) from error
    copied.seek(0)
    return cast("BinaryIO", copied)


def refresh(filesystem: Any) -> Any:  # noqa: ANN401 - fsspec has no types
    """Return the same file system without what it has kept of listings.

    Some keep them whatever they are told, so it is asked for before every look. Google's library
    asks for a token for half a minute where there is none to be had; it is asked once, here.
    """
    filesystem.invalidate_cache()
    renew = getattr(getattr(filesystem, "credentials", None), "maybe_refresh", None)
    if renew is not None:
        renew()
    return filesystem


def _choose_options(part: str) -> tuple[str, dict[str, Any]]:
    """Return the protocol of a part of a URL, and what its library is given."""
    # `simplecache` is a protocol, and a path is a file's.
    found = split_protocol(part)[0]
    protocol = str(found or (part if part.isalpha() else "file"))
    access = _find_access(part)
    chosen = {} if access is None else build_arguments(protocol, access, os.environ)
    return protocol, {"use_listings_cache": False, **_GIVEN.get(protocol, {}), **chosen}


def _find_access(url: str) -> StoreAccess | None:
    fitting = [at for at in _ACCESS if url == at or url.startswith(at.rstrip("/") + "/")]
    return _ACCESS[max(fitting, key=len)] if fitting else None
