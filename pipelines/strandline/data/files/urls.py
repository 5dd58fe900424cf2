"""Walks a store, or looks up one file in a store, through fsspec.

The module must not depend on how the files are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from strandline.data.files.globs import Exclusion, PathPattern
from strandline.data.files.listed import LEFT_FILE, ListedFile, name_left
from strandline.storage.access.refusals import StoreRefusesError, explain_store_error, is_refusal
from strandline.storage.access.stores import open_store

# Names that store libraries use for the version of an object, the most precise first.
_MARKS = (
    *(
        "ETag",
        "etag",
        "md5Hash",
        "blob_id",
        "mtime",
        "LastModified",
        "last_modified",
        "updated",
        "created",
    ),
    *("Content-MD5", "Digest", "Last-Modified"),  # for web servers that send no ETag
)


def walk_url(
    pattern: PathPattern, exclusion: Exclusion, count: Callable[[str], None]
) -> Iterator[ListedFile]:
    """Yield the files in a store that match a pattern.

    Args:
        count: called with a counter's name for each skipped file or folder.

    Raises:
        OSError: if the location does not exist, or the store refuses access.
    """
    # Links need no handling: stores behind URLs resolve links themselves.
    try:
        if not pattern.is_plain:
            yield from _walk_url_folder(pattern, exclusion, count)
        elif not exclusion.holds(pattern.format_key(pattern.rest)):
            url = f"{pattern.base.rstrip('/')}/{pattern.rest}"
            files, root = open_store(url)
            yield _entry_of_url(pattern.format_key(pattern.rest), url, files.info(root))
    except FileNotFoundError as error:
        msg = f"{pattern.format_key(pattern.rest)!r}: the file or folder does not exist"
        raise FileNotFoundError(msg) from error
    except Exception as error:  # each store library has its own error classes
        msg = f"{pattern.format_key(pattern.rest)!r}: {explain_store_error(error)}"
        kind = StoreRefusesError if is_refusal(error) else OSError
        raise kind(msg) from error


def _walk_url_folder(
    pattern: PathPattern, exclusion: Exclusion, count: Callable[[str], None]
) -> Iterator[ListedFile]:
    files, root = open_store(pattern.base)
    start = root.rstrip("/") + "/"
    # Raise errors, which fsspec ignores by default: otherwise the files of an unreadable folder
    # would seem removed.
    for folder, folders, names in files.walk(root, detail=True, on_error="raise"):
        below = (folder.rstrip("/") + "/").removeprefix(start)
        # Copy the names, because the loop deletes from `folders` the names that `walk` must not
        # enter.
        for name in list(folders):
            if exclusion.holds_folder(pattern.format_key(below + name)):
                del folders[name]
            elif pattern.is_left_folder(name):
                del folders[name]
                if pattern.depth is None or below.count("/") < pattern.depth:
                    count(name_left(name))
        for name, info in names.items():
            key = pattern.format_key(below + name)
            if pattern.is_marker(below + name):
                count(LEFT_FILE)
            # Skip the marker object of a folder, such as `s3://bucket/data/`, which has an empty
            # name.
            elif name and pattern.regex.match(below + name) and not exclusion.holds(key):
                # Keep the URL as written in the pattern: some libraries drop the account or the
                # protocol.
                yield _entry_of_url(key, f"{pattern.base.rstrip('/')}/{below}{name}", info)


def _entry_of_url(key: str, url: str, info: dict[str, Any]) -> ListedFile:
    size = int(info.get("size") or 0)
    mark = next((info[name] for name in _MARKS if info.get(name)), "")
    mtime = info.get("mtime")
    mtime_ns = int(mtime * 1_000_000_000) if isinstance(mtime, int | float) else 0
    return ListedFile(key, url, size, mtime_ns, f"{size}+{mark}")
