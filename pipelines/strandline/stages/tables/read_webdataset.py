"""The stage `read-webdataset`: the samples of WebDataset shards, in tasks of bounded size."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import READ_ERRORS, explain_error, open_decompressed
from strandline.stages.tables.batching import cut_batches


@register("read-webdataset")
class ReadWebdataset(Stage):
    """Reads tar shards; a row is a sample: its key, and a column of bytes for each extension."""

    class Params(Stage.Params):
        """What is read of a sample."""

        extensions: tuple[str, ...] | None = Field(
            default=None,
            min_length=1,
            description="Extensions that become columns, such as `txt` or `seg.png`; a sample "
            "without one has a null there. All that a task's samples have when unset.",
        )
        max_rows: int = Field(default=1_000, ge=1, description="Most samples of a task.")
        max_task_bytes: int = Field(
            default=16 << 20, ge=1, description="Bytes after which a task goes on."
        )

    params: Params
    keeps_columns = False
    adds_columns = ("key",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        wanted = self.params.extensions
        return Columns(("key", *(wanted or ())), is_open=wanted is None)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of samples, in the order of the shard; .gz, .zst and others are unpacked.

        Raises:
            UnreadableFileError: a shard can't be read or is no tar.
        """
        params = self.params
        samples = (row for file in list_references(task) for row in self._read(file))
        for rows in cut_batches(samples, _measure, params.max_rows, params.max_task_bytes):
            yield task.replace(self._build_table(rows))

    def _read(self, file: FileReference) -> Iterator[dict[str, bytes | str]]:
        try:
            for name, members in groupby(self._list_members(file.path), key=lambda each: each[0]):
                yield {"key": f"{file.key}#{name}"} | {kind: data for _, kind, data in members}
        except (*READ_ERRORS, tarfile.TarError) as error:
            raise explain_error(file.key, error) from error

    def _list_members(self, path: str) -> Iterator[tuple[str, str, bytes]]:
        """Yield sample, extension and bytes of each file; folders and links are none."""
        with open_decompressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as shard:
            for member in shard:
                sample, kind = split_name(member.name)
                opened = shard.extractfile(member) if member.isfile() else None
                if opened is not None and kind and self._is_wanted(kind):
                    yield sample, kind, opened.read()

    def _is_wanted(self, kind: str) -> bool:
        return self.params.extensions is None or kind in self.params.extensions

    def _build_table(self, rows: list[dict[str, bytes | str]]) -> pa.Table:
        seen = dict.fromkeys(name for row in rows for name in row if name != "key")
        kinds = self.params.extensions or tuple(seen)
        arrays = [pa.array([row["key"] for row in rows], pa.string())]
        arrays += [pa.array([row.get(kind) for row in rows], pa.binary()) for kind in kinds]
        return pa.Table.from_arrays(arrays, names=["key", *kinds])


def _measure(row: dict[str, bytes | str]) -> int:
    return sum(map(len, row.values()))


def split_name(name: str) -> tuple[str, str]:
    """Return sample and extension: what is before and after the first dot of the last part."""
    folder, slash, last = name.rpartition("/")
    sample, _, kind = last.partition(".")
    return folder + slash + sample, kind.lower()
