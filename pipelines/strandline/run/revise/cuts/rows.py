"""Reads a cut as tasks for the next stage.

Workers load this module, so it must not depend on ledgers or runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from strandline.data.files.opening import open_binary
from strandline.engine.call.stage.cuts import read_task
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Slot, Task
from strandline.storage.outputs.disk.shards import digest_bytes


class CutFile(NamedTuple):
    """A file of a cut or of a sink.

    Attributes:
        location: path or URL.
        digest: blake2b-128 of the bytes.
        rows: the rows to read, or None for all rows.
    """

    location: str
    digest: bytes
    rows: range | None = None


class ReadCut(Stage):
    """Reads a source's kept output of a stage, in the order in which the stage produced it."""

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield the kept tasks."""
        for file in task.data:
            if file is None:
                # Later stages count all outputs of a fan-out to form groups. An output that did not
                # reach this stage has no file, so yield a gap.
                yield None
                continue
            try:
                task = self.unpack(file)
            except OSError as error:
                yield FailedTask(f"the kept output can't be read: {error}")
                return
            except ValueError as error:
                yield FailedTask(f"{error}: {file.location}")
                return
            yield task

    def unpack(self, file: CutFile) -> Task:
        """Return the task in a file.

        Raises:
            OSError: if the file can't be read.
            ValueError: if the bytes have changed, or the file is a placeholder for a task that
                could not be kept.
        """
        data, meta = read_task(_read(file))
        return Task(data, meta)


def _read(file: CutFile) -> bytes:
    with open_binary(file.location) as opened:
        packed: bytes = opened.read()
    if digest_bytes(packed) != file.digest:
        raise ValueError("the kept output has changed since it was written")
    return packed


@runtime_checkable
class RereadableSink(Protocol):
    """A sink that can read back the tables it wrote."""

    @property
    def holds_tables(self) -> bool:
        """Return True if, with the sink's parameters, the files contain the tables unchanged."""

    def read_back(self, file: bytes, rows: range | None) -> tuple[int, pa.Table]:
        """Return at least the requested rows of a file, and the index of the first returned row."""


class ReadOutput(ReadCut):
    """Reads the files that a sink has written for a source.

    Args:
        sink: the sink, which can read its files back.
        without: columns to drop, because a later stage adds them again.
    """

    def __init__(self, sink: RereadableSink, without: Collection[str] = ()) -> None:
        super().__init__()
        self._sink = sink
        self._without = list(without)
        # Keep the last shared file. Sources that share a file follow each other, so the file is
        # read and checked only once.
        self._shared = CutFile("", b""), b""
        self._known = (0, pa.table({}))

    def unpack(self, file: CutFile) -> Task:
        if file.rows is None:
            return self._trim(self._sink.read_back(_read(file), None)[1])
        name = file._replace(rows=None)
        if self._shared[0] != name:
            self._shared = name, _read(file)
            self._known = (0, pa.table({}))
        first, table = self._known
        if not first <= file.rows.start <= file.rows.stop <= first + table.num_rows:
            self._known = first, table = self._sink.read_back(self._shared[1], file.rows)
        return self._trim(table.slice(file.rows.start - first, len(file.rows)))

    def _trim(self, table: pa.Table) -> Task:
        missing = [name for name in self._without if name not in table.column_names]
        if missing:
            raise ValueError(f"the written output has no column {missing[0]!r}")
        return Task(table.drop_columns(self._without) if self._without else table)
