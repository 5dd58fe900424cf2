"""The list of the files that count: `_manifest`, at the root of outputs, for readers from outside.

What lies in a folder of outputs may be of a source that failed, or of a task in flight. Readers of
other programs can't ask a ledger, but they can take a list. It begins with `_` and has no ending,
so neither Arrow nor a glob for data takes it for data. Which files count is not known here.
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

BLOCK = 1 << 20


class ListedOutput(NamedTuple):
    """A file that counts.

    Attributes:
        name: below the root of outputs, with `/` between its parts.
        size: bytes.
        rows: rows that count; of files that belong together the first one has them all.
    """

    name: str
    size: int
    rows: int


class IndexedFile(NamedTuple):
    """A file that counts, for an index that readers of its format begin with.

    Attributes:
        name, size, rows: see `ListedOutput`.
        read: gives its bytes from one position to another.
    """

    name: str
    size: int
    rows: int
    read: Callable[[int, int], bytes]


def write_manifest(location: str, outputs: Iterable[ListedOutput]) -> Content:
    """Put the list in its place, whole; a reader finds the former one or this one.

    Args:
        location: folder or URL of the outputs, as `resolve_location` spells it.

    Raises:
        VolumeError: the place can't be written to; the former list stays.
    """
    return write_beside(location, MANIFEST, _render(outputs))


def write_beside(location: str, name: str, content: Iterable[bytes]) -> Content:
    """Put a file at the root of outputs, whole; a reader finds the former one or this one.

    Raises:
        VolumeError: the place can't be written to; the former file stays.
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
    """Remove a file at the root of outputs, if it is there.

    Raises:
        VolumeError: it can't be removed.
    """
    open_outputs(location).remove_shared(name)


def list_outputs(location: str | Path) -> list[str]:
    """Return the files that count in a folder of outputs: those of finished sources, and no others.

    They are as of the end of the last attempt that changed something. The paths go to
    `pyarrow.dataset.dataset`, `duckdb.read_parquet`, `polars.scan_ndjson` or, as `data_files`, to
    `datasets.load_dataset`.

    Args:
        location: the folder or URL that a pipeline writes to.

    Returns:
        Paths or URLs, as the location is one.

    Raises:
        FileNotFoundError: there is no list: no attempt has ended there yet.
        CredentialsRefusedError: the store does not let us in.
    """
    root = resolve_location(str(location))
    return [f"{root}/{output.name}" for output in read_manifest(root)]


def read_manifest(location: str) -> Iterator[ListedOutput]:
    """Yield the files that count in a place; see `list_outputs`."""
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
        msg = f"{location}: no {MANIFEST} is there, which is written when an attempt ends"
        raise FileNotFoundError(msg) from None


def _render(outputs: Iterable[ListedOutput]) -> Iterator[bytes]:
    """Yield the list in blocks: millions of lines are not held at once, nor written one by one."""
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
