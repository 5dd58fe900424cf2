"""The stage `read-webdataset`: reads samples of WebDataset shards, in tasks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import (
    LEAST_WINDOW,
    READ_ERRORS,
    UnreadableFileError,
    ZstdWindow,
    explain_error,
    open_decompressed,
)
from strandline.data.tables.batching import cut_batches
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import SchemaReader
from strandline.plan.stages.columns import Columns
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import describe_contents, explain_misread
from strandline_packs.tables.contents.samples import (
    SampleError,
    SampleFile,
    ShardSample,
    collect_samples,
    find_reason,
    split_name,
)
from strandline_packs.tables.contents.tar_members import (
    NoTarError,
    TarDamageError,
    list_members,
)

_NAMED = 8  # extensions to name in the message if no wanted one exists


class ReadWebdataset(SchemaReader):
    """Reads tar shards. A row is a sample: its key, and a column of bytes for each extension."""

    class Params(SchemaReader.Params):
        """Configures the parts of a sample to read."""

        extensions: tuple[str, ...] | None = Field(
            default=None,
            min_length=1,
            description="Extensions that become columns, such as `txt` or `seg.png`; if a sample "
            "lacks one, its value is null. When unset, all extensions of a task's "
            "samples.",
        )
        max_rows: int = Field(
            default=1_000, ge=1, description="Maximum number of samples of a task."
        )
        max_task_bytes: int = Field(
            default=16 << 20, ge=1, description="Number of bytes after which a task ends."
        )
        zstd_window: ZstdWindow = LEAST_WINDOW

    params: Params
    added_params: ClassVar[frozenset[str]] = SchemaReader.added_params | {"zstd_window"}
    keeps_columns = False
    adds_columns = ("key",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        wanted = self.params.extensions
        if wanted is None or self.schema is not None:
            return super().change_columns(columns)
        return Columns(("key", *wanted))

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of samples in shard order. Compressed shards are unpacked.

        Raises:
            UnreadableFileError: a shard is unreadable or incomplete, or its members do not form
                adjacent samples.
        """
        params = self.params
        files = list_references(task)
        samples = (row for file in files for row in self._read(file))
        for rows in cut_batches(samples, _measure, params.max_rows, params.max_task_bytes):
            yield task.replace(self.conform(files[0].key, self._build_table(rows)))

    def _read(self, file: FileReference) -> Iterator[dict[str, bytes | str]]:
        try:
            yield from self._list_rows(file)
        except NoTarError as error:
            msg = f"{file.key}: {error}; {describe_contents(file.path)}"
            raise UnreadableFileError(msg) from error
        except (TarDamageError, SampleError) as error:
            raise explain_error(file.key, error) from error
        except READ_ERRORS as error:
            raise explain_misread(file, error) from error

    def _list_rows(self, file: FileReference) -> Iterator[dict[str, bytes | str]]:
        kinds: set[str] = set()
        number = 0
        with open_decompressed(file.path, self.params.zstd_window) as stream:
            for sample in collect_samples(self._list_files(stream, kinds)):
                if row := self._choose(sample):
                    number += 1
                    yield {"key": f"{file.key}#{sample.name}"} | row
        # No member was used, so the parameters probably name other extensions than the archive has.
        if kinds and not number:
            there = ", ".join(sorted(map(repr, kinds))[:_NAMED])
            raise SampleError(
                f"no file has one of the requested extensions; its extensions are: {there}"
            )

    def _list_files(self, stream: BinaryIO, kinds: set[str]) -> Iterator[SampleFile]:
        """Yield the sample files. Count all other members as dropped, except folders."""
        for member in list_members(stream, self._reads_content):
            if member.is_folder:
                continue
            sample, kind = split_name(member.name)
            kinds.add(kind)
            if reason := find_reason(member, sample, kind):
                self.count(f"dropped: {reason}")
            else:
                yield SampleFile(sample, kind, member)

    def _reads_content(self, name: str) -> bool:
        return self._is_wanted(split_name(name)[1])

    def _choose(self, sample: ShardSample) -> dict[str, bytes]:
        """Return a sample's requested columns. If there are none, count a dropped sample."""
        row = {kind: data for kind, data in sample.parts.items() if self._is_wanted(kind)}
        if not row:
            self.count("dropped: none of the extensions")
        elif "key" in row:
            msg = f"the sample {sample.name!r} has a file 'key', as the column of keys is called"
            raise SampleError(f"{msg}; list the required `extensions`")
        return row

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
