"""The source `shuffle-partitions`: lists the partitions that another pipeline wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.buckets import build_file_table, digest_members
from strandline.data.files.listed import ListedFile
from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.file_references import FileReference
from strandline.plan.stages.ends import Source
from strandline_packs.tables.shuffle.partition_files import measure_partition, read_facts


class ShufflePartitions(FileSource):
    """Lists the partitions in files of the sink `shuffle`. Each is a source for `read-shuffle`."""

    class Params(FileListParams):
        """Configures the files, and the number of partitions in a source."""

        target_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Approximate size of a source in bytes, before compression. Each source "
            "joins the same number of consecutive partitions; by default one.",
        )
        only_touched: bool = Field(
            default=False,
            description="A new or changed file changes only the partitions with rows in the file. "
            "Each listing then reads the footer of every file.",
        )

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "partition", "last_partition", "partitions")
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes"})
    # Files without rows of a partition do not affect the partition's content.
    not_fingerprinted: ClassVar[frozenset[str]] = FileSource.not_fingerprinted | {"only_touched"}

    @property
    def packed_under(self) -> str:
        return "partition"

    def list_sources(self) -> Iterator[Source]:
        """Yield every partition, with a version over the files that the partition reads.

        Raises:
            OSError: a folder is missing or can't be read, or the sink did not write a file.
        """
        entries = sorted(self.list_files(self.params))
        if not entries:
            return
        files = [FileReference(entry.key, entry.path) for entry in entries]
        target, is_parted = self.params.target_bytes, self.params.only_touched
        try:
            # Any file has the number of partitions; the average size needs all footers.
            count, size = measure_partition(files if target else files[:1])
            groups = [facts.groups for facts in read_facts(files if is_parted else ())]
        except UnreadableFileError as error:
            raise OSError(str(error)) from error
        joined = 1 if target is None else max(1, target // max(size, 1))
        parts = _part_files(entries, groups, joined) if is_parted else None
        version, data = digest_members(entries), _build_table(entries)
        for first in range(0, count, joined):
            last = min(first + joined, count) - 1
            numbers = f"{first:05d}" if joined == 1 else f"{first:05d}-{last:05d}"
            if parts is not None:
                touching = parts[first // joined]
                # An empty partition still needs one file, from which the reader takes the columns.
                version, data = digest_members(touching), _build_table(touching or entries[:1])
            table = data
            for name, value in zip(self.adds_columns[2:], (first, last, count), strict=True):
                column = pa.repeat(pa.scalar(value, pa.int32()), len(data))
                table = table.append_column(name, column)
            yield Source(f"partition/{numbers}-of-{count:05d}", version, table)


def _build_table(entries: Sequence[ListedFile]) -> pa.Table:
    return build_file_table(entries).select(["key", "path"])


def _part_files(
    entries: Sequence[ListedFile], groups: Sequence[Sequence[int]], joined: int
) -> defaultdict[int, list[ListedFile]]:
    """Return the files of each source that contain rows of the source.

    Args:
        entries: all files.
        groups: for each file, the partitions that have rows.
        joined: number of consecutive partitions in a source.
    """
    parts = defaultdict[int, list[ListedFile]](list)
    for entry, numbers in zip(entries, groups, strict=True):
        for source in sorted({number // joined for number in numbers}):
            parts[source].append(entry)
    return parts
