"""Renders what readers of a sink's format begin with, from the files that count.

It must not know the format: the sink has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, runtime_checkable

from strandline.data.files.opening import open_binary
from strandline.plan.stages.ends import SinkStage
from strandline.storage.outputs.manifest import IndexedFile, ListedOutput


@runtime_checkable
class IndexingSink(Protocol):
    """A sink whose readers begin with one file for all of a run."""

    def format_index(self, files: Iterable[IndexedFile]) -> Iterable[bytes]:
        """Yield the bytes of that file, for files in the order of their names."""


def make_index(
    sink: SinkStage, location: str
) -> Callable[[Iterable[ListedOutput]], Iterable[bytes]] | None:
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
