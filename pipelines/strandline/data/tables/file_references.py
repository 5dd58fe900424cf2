"""Tables that represent a file, or a byte range of a file, until a reader stage opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from strandline.data.files.globs import is_url
from strandline.data.files.listed import ListedFile
from strandline.data.tables.columns import list_strings
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task

_LARGE_BYTES = 1 << 30
_LARGE_SOURCE = (
    "files of more than 1 GiB that are one source each: a killed run repeats the whole file; "
    "`rangeBytes` splits files that are not compressed as a whole"
)


class FileReference(NamedTuple):
    """A file's key and path, and an optional byte range.

    Attributes:
        start, stop: range of bytes. If `stop` is None, the reference represents the whole file.
    """

    key: str
    path: str
    start: int = 0
    stop: int | None = None

    @property
    def is_range(self) -> bool:
        """Return True if the reference represents a byte range instead of the whole file."""
        return self.stop is not None


def build_reference(entry: ListedFile) -> pa.Table:
    """Return a table with one row and the columns key and path."""
    return pa.table({"key": [entry.key], "path": [entry.path]})


def build_range(entry: ListedFile, start: int, stop: int | None) -> pa.Table:
    """Return a table with one row and the columns key, path, start, and stop."""
    table = build_reference(entry).append_column("start", pa.array([start], pa.int64()))
    return table.append_column("stop", pa.array([stop], pa.int64()))


RANGE_SUFFIX = r"#bytes=\d+-\d+"  # matches the end of a range's key


def list_ranges(
    entry: ListedFile, length: int | None, whole: pa.Table, count: Callable[[str], None]
) -> Iterator[Source]:
    """Yield a source for each byte range of a file, or one source for the whole file.

    The key of a range is the file's key with a suffix such as `#bytes=0-1048575`.

    Args:
        length: length of a range in bytes, or None to keep the file whole. Files of unknown length
            always stay whole.
        whole: row for the whole file.
        count: called with a counter's name if a whole file is large.
    """
    if length is None or not _is_end_known(entry):
        if entry.size > _LARGE_BYTES:
            count(_LARGE_SOURCE)
        yield Source(entry.key, entry.version, whole)
        return
    # Yield a range for an empty file too, so that the file appears in the ledger.
    for start in range(0, max(entry.size, 1), length):
        stop = start + length
        key = f"{entry.key}#bytes={start}-{stop - 1}"
        # End at the listed size: bytes appended after this listing belong to the next version.
        yield Source(key, entry.version, build_range(entry, start, stop))


def _is_end_known(entry: ListedFile) -> bool:
    """Return True if the length of a file is known. A web server may not report the length."""
    return entry.size > 0 or not is_url(entry.path)


def list_references(task: Task) -> list[FileReference]:
    """Return the files that a task's table represents.

    Raises:
        MissingColumnError: if the table lacks `key` or `path`.
    """
    keys, paths = list_strings(task.table, "key"), list_strings(task.table, "path")
    # Only sources with `rangeBytes` add these columns.
    if not {"start", "stop"}.issubset(task.table.column_names):
        return [FileReference(key, path) for key, path in zip(keys, paths, strict=True)]
    ranges = (task.table.column(name).to_pylist() for name in ("start", "stop"))
    return [FileReference(*fields) for fields in zip(keys, paths, *ranges, strict=True)]
