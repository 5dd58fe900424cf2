"""How a store behind a URL is opened, and what may be kept of it: one rule for all of fsspec.

A listing and a look at a file always ask the store. Libraries keep both for as long as a process
lives, and a driver outlives what others write and remove meanwhile. What may be kept is the
connection. It must not know what is read or written.
"""

from __future__ import annotations

from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import split_protocol

_CHAIN = "::"


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, as it is now, and the path on it.

    Raises:
        ValueError, ImportError: nothing here opens the URL; see `protocols.find_lack`.
    """
    # What stands before `::` keeps files, listings or an archive of what stands behind.
    is_chain = _CHAIN in url
    options = {_find_protocol(part): _keep_nothing() for part in url.split(_CHAIN)}
    try:
        found = fsspec.core.url_to_fs(url, skip_instance_cache=is_chain, **options)
    except TypeError:  # a file system that hands its options to another library
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    filesystem, root = found
    return refresh(filesystem), str(root)


def open_url(url: str, mode: str = "rb") -> BinaryIO:
    """Return the bytes at a URL, as they are now; with `wb` what writes them.

    Raises:
        OSError: it can't be opened; and whatever the library of its store raises.
    """
    filesystem, root = open_store(url)
    return cast("BinaryIO", filesystem.open(root, mode))


def refresh(filesystem: Any) -> Any:  # noqa: ANN401 - fsspec has no types
    """Return the same file system without what it has kept of listings.

    Some keep them whatever they are told, so it is asked for before every look.
    """
    filesystem.invalidate_cache()
    return filesystem


def _find_protocol(part: str) -> str:
    """Return the protocol of a part of a URL; `simplecache` is one, and a path is a file's."""
    found = split_protocol(part)[0]
    return str(found or (part if part.isalpha() else "file"))


def _keep_nothing() -> dict[str, Any]:
    return {"use_listings_cache": False}
