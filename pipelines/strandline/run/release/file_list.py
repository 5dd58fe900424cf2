"""Writes the list of current data files, and an index for readers of the file format.

The list has the files of finished sources. Only the sink depends on the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, runtime_checkable

from strandline.data.files.opening import open_binary
from strandline.ledger.output_root import list_out
from strandline.ledger.records.entries import LISTED, Change
from strandline.ledger.store.store import Store
from strandline.plan.stages.ends import SinkStage
from strandline.storage.outputs.manifest import (
    IndexedFile,
    ListedOutput,
    write_beside,
    write_manifest,
)
from strandline.storage.outputs.names import INDEX, MANIFEST

RenderIndex = Callable[[Iterable[ListedOutput]], Iterable[bytes]]


@runtime_checkable
class IndexingSink(Protocol):
    """A sink whose readers start from a single index file for all files of a run."""

    def format_index(self, files: Iterable[IndexedFile]) -> Iterable[bytes]:
        """Yield the bytes of the index for files in name order."""


def make_index(sink: SinkStage, location: str) -> RenderIndex | None:
    """Return a function that renders the index of a sink's files, or None if there is no index.

    Args:
        location: folder or URL of the outputs.
    """
    if not isinstance(sink, IndexingSink):
        return None
    return lambda outputs: sink.format_index(_list_files(sink.suffix, location, outputs))


def _list_files(
    suffix: str, location: str, outputs: Iterable[ListedOutput]
) -> Iterator[IndexedFile]:
    for name, size, rows in sorted(each for each in outputs if each.name.endswith(suffix)):
        yield IndexedFile(name, size, rows, partial(_read, f"{location.rstrip('/')}/{name}"))


def _read(path: str, begin: int, end: int) -> bytes:
    with open_binary(path) as file:
        file.seek(begin)
        return file.read(end - begin)


def publish_list(
    store: Store, location: str, attempt: int, render_index: RenderIndex | None = None
) -> list[str]:
    """Write the list of current data files next to the outputs, unless the list is up to date.

    Args:
        location: folder or URL of the outputs.
        render_index: renders the index of the sink's format, or None if there is no index.

    Returns:
        A sentence if the list was not written. In this case, the previous list stays.

    Raises:
        LeaseLostError: if another attempt has the ledger.
        VolumeError: if the location is not writable. The previous list stays.
    """
    if store.read_meta(LISTED) is not None:
        return []
    # Some shared files still have rows without a finished source, which readers would count.
    partial = sum(facts.live != facts.rows for _, facts in store.list_shared())
    if partial:
        return [
            f"{MANIFEST} is out of date: {partial} shared files have rows that belong to no source"
        ]
    # The files are written outside of any transaction, so check the lease first.
    store.require_lease()
    size, digest = write_manifest(location, list_out(store))
    facts = {"attempt": attempt, "size": size, "digest": digest.hex()}
    if render_index is not None:
        facts["index"] = write_beside(location, INDEX, render_index(list_out(store))).digest.hex()
    # Record the list last, so that after a crash, the next attempt writes the list again.
    store.write(Change(meta={LISTED: facts}))
    return []
