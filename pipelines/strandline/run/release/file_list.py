"""Writes the list of files that count, and the index that readers of the sink's format begin with.

The module must not know the format: the sink has it.
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
    """A sink whose readers begin with one file for all of a run."""

    def format_index(self, files: Iterable[IndexedFile]) -> Iterable[bytes]:
        """Yield the bytes of that file, for files in the order of their names."""


def make_index(sink: SinkStage, location: str) -> RenderIndex | None:
    """Return what renders the index of a sink's files; None where its readers need none.

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
    """Write beside the outputs which of them count, unless the list there still holds.

    Args:
        location: where they are.
        render_index: makes what readers of the sink's format begin with; None: they need nothing.

    Returns:
        Why it was not written, a sentence; the former list stays.

    Raises:
        LeaseLostError: another attempt has the ledger.
        VolumeError: the place can't be written to; the former list stays.
    """
    if store.read_meta(LISTED) is not None:
        return []
    # A reader of such a file would count rows of what is not finished.
    partial = sum(facts.live != facts.rows for _, facts in store.list_shared())
    if partial:
        return [f"{MANIFEST} is not of now: {partial} shared files have rows that are nobody's"]
    store.require_lease()
    size, digest = write_manifest(location, list_out(store))
    facts = {"attempt": attempt, "size": size, "digest": digest.hex()}
    if render_index is not None:
        facts["index"] = write_beside(location, INDEX, render_index(list_out(store))).digest.hex()
    store.write(Change(meta={LISTED: facts}))
    return []
