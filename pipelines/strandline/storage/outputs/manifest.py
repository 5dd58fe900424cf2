"""The manifest: a list of the files of finished sources, at the root of the outputs, for readers.

A folder of outputs may contain files of failed sources and of tasks in flight. Other programs
cannot query a ledger, but they can read a list. The file name, `_manifest`, begins with `_` and has
no suffix, so neither Arrow nor a glob treats the file as data. The module does not decide which
files are listed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from strandline.storage.access.refusals import naming_rejection
from strandline.storage.access.stores import open_store, refresh
from strandline.storage.errors import naming_volume
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.outputs.hashing import DIGEST_BYTES, Content
from strandline.storage.outputs.names import MANIFEST
from strandline.storage.outputs.remote import open_outputs, put_files, resolve_location

# Number of characters of the list to keep in memory.
BLOCK = 1 << 20


class ListedOutput(NamedTuple):
    """An output file of a finished source.

    Attributes:
        name: path relative to the root of the outputs, with `/` as separator.
        size: size in bytes.
        rows: number of rows of finished sources. A companion file has 0 rows, because the main file
            already
            counts the rows.
    """

    name: str
    size: int
    rows: int


class IndexedFile(NamedTuple):
    """An output file of a finished source, as input for an index in the file's format.

    Attributes:
        name, size, rows: see `ListedOutput`.
        read: returns the bytes between two positions.
    """

    name: str
    size: int
    rows: int
    read: Callable[[int, int], bytes]


def write_manifest(location: str, outputs: Iterable[ListedOutput]) -> Content:
    """Write the manifest atomically. Readers find the previous or the new manifest.

    Args:
        location: folder or URL of the outputs, in the form of `resolve_location`.

    Raises:
        VolumeError: if the location can't be written; the previous manifest stays.
    """
    return write_beside(location, MANIFEST, _render(outputs))


def write_beside(location: str, name: str, content: Iterable[bytes]) -> Content:
    """Write a file at the root of the outputs atomically. Readers find the old or the new file.

    Raises:
        VolumeError: if the location can't be written; the previous file stays.
    """
    state, size = blake2b(digest_size=DIGEST_BYTES), 0

    def watch() -> Iterator[bytes]:
        nonlocal size
        for block in content:
            state.update(block)
            size += len(block)
            yield block

    if "://" in location:
        _put(location, name, watch())
    else:
        with naming_volume(location):
            Path(location).mkdir(parents=True, exist_ok=True)
        write_whole(Path(location, name), watch(), steps="list")
    return Content(size, state.digest())


def remove_beside(location: str, name: str) -> None:
    """Remove a file at the root of the outputs if the file exists.

    Raises:
        VolumeError: if the file can't be removed.
    """
    open_outputs(location).remove_shared(name)


def list_outputs(location: str | Path) -> list[str]:
    """Return the files in a folder of outputs that belong to finished sources.

    The list describes the end of the last attempt that changed an output. The paths can be passed
    to `pyarrow.dataset.dataset`, `duckdb.read_parquet`, `polars.scan_ndjson` or, as `data_files`,
    to `datasets.load_dataset`.

    Args:
        location: the folder or URL that a pipeline writes to.

    Returns:
        Paths if the location is a path, URLs if the location is a URL.

    Raises:
        FileNotFoundError: if the list is missing because no attempt has ended yet.
        CredentialsRefusedError: if the store rejects the credentials.
    """
    root = resolve_location(str(location))
    return [f"{root}/{output.name}" for output in read_manifest(root)]


def read_manifest(location: str) -> Iterator[ListedOutput]:
    """Yield the files of finished sources at a location; see `list_outputs`."""
    with _open(location) as file:
        for line in file:
            name, size, rows = line.decode().rstrip("\n").split("\t")
            yield ListedOutput(name, int(size), int(rows))


def _open(location: str) -> Any:  # noqa: ANN401 - a file, or fsspec's
    try:
        if "://" not in location:
            return Path(location, MANIFEST).open("rb")
        with naming_rejection(location):
            filesystem, root = open_store(location)
            return refresh(filesystem).open(f"{root.rstrip('/')}/{MANIFEST}", "rb")
    except FileNotFoundError:
        msg = f"{location}: {MANIFEST} is missing; it is written when an attempt ends"
        raise FileNotFoundError(msg) from None


def _render(outputs: Iterable[ListedOutput]) -> Iterator[bytes]:
    """Yield the manifest in blocks of lines.

    Millions of lines would not fit into memory, and separate writes would be slow.
    """
    lines: list[str] = []
    length = 0
    for output in outputs:
        lines.append(f"{output.name}\t{output.size}\t{output.rows}\n")
        length += len(lines[-1])
        if length >= BLOCK:
            yield "".join(lines).encode()
            lines, length = [], 0
    yield "".join(lines).encode()


def _put(location: str, name: str, blocks: Iterable[bytes]) -> None:
    with tempfile.NamedTemporaryFile(prefix="strandline-list-") as file:
        with naming_volume(file.name):
            file.writelines(blocks)
            file.flush()
        put_files(location, {name: Path(file.name)})
