"""The source `shuffle-partitions`: partitions of what another pipeline has shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Source
from strandline.stages.sources.buckets import build_file_table, digest_members
from strandline.stages.sources.file_references import FileReference
from strandline.stages.sources.listing import FileListParams, FileSource
from strandline.stages.sources.opening import UnreadableFileError
from strandline.stages.tables.shuffle.partition_files import measure_partition


@register("shuffle-partitions")
class ShufflePartitions(FileSource):
    """Lists the partitions in files of the sink `shuffle`, each a source for `read-shuffle`."""

    class Params(FileListParams):
        """Which files, and how many of their partitions are one source."""

        target_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Bytes of a source, about, before compression: so many partitions in a "
            "row are one, always equally many. By default each is a source.",
        )

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "partition", "last_partition", "partitions")
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes"})

    @property
    def packed_under(self) -> str:
        return "partition"

    def list_sources(self) -> Iterator[Source]:
        """Yield every partition; its version changes with any of the files.

        Raises:
            OSError: a folder is missing or can't be read, or a file is none of the sink's.
        """
        entries = sorted(self.list_files(self.params))
        if not entries:
            return
        files = [FileReference(entry.key, entry.path) for entry in entries]
        target = self.params.target_bytes
        try:
            count, size = measure_partition(files if target else files[:1])
        except UnreadableFileError as error:
            raise OSError(str(error)) from error
        joined = 1 if target is None else max(1, target // max(size, 1))
        version, data = digest_members(entries), build_file_table(entries).select(["key", "path"])
        for first in range(0, count, joined):
            last = min(first + joined, count) - 1
            numbers = f"{first:05d}" if joined == 1 else f"{first:05d}-{last:05d}"
            table = data
            for name, value in zip(self.adds_columns[2:], (first, last, count), strict=True):
                column = pa.repeat(pa.scalar(value, pa.int32()), len(data))
                table = table.append_column(name, column)
            yield Source(f"partition/{numbers}-of-{count:05d}", version, table)
