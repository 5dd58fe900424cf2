"""The source `shuffle-partitions`: partitions of what another pipeline has shuffled."""

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
    """Lists the partitions in files of the sink `shuffle`, each a source for `read-shuffle`."""

    class Params(FileListParams):
        """Which files, and how many of their partitions are one source."""

        target_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Bytes of a source, about, before compression: so many partitions in a "
            "row are one, always equally many. By default each is a source.",
        )
        only_touched: bool = Field(
            default=False,
            description="Have a new or changed file change the partitions that it has rows of, and "
            "no others. Each listing reads the end of every file for that.",
        )

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "partition", "last_partition", "partitions")
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes"})
    # Without the files that have no rows of it a partition is the same.
    not_fingerprinted: ClassVar[frozenset[str]] = FileSource.not_fingerprinted | {"only_touched"}

    @property
    def packed_under(self) -> str:
        return "partition"

    def list_sources(self) -> Iterator[Source]:
        """Yield every partition; its version changes with any of the files that it is read from.

        Raises:
            OSError: a folder is missing or can't be read, or a file is none of the sink's.
        """
        entries = sorted(self.list_files(self.params))
        if not entries:
            return
        files = [FileReference(entry.key, entry.path) for entry in entries]
        target, is_parted = self.params.target_bytes, self.params.only_touched
        try:
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
                # A reader needs a file to learn of the columns.
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
    """Return by source the files with rows of it, in order.

    Args:
        groups: of each file, the partitions of which it has rows.
        joined: how many partitions in a row are a source.
    """
    parts = defaultdict[int, list[ListedFile]](list)
    for entry, numbers in zip(entries, groups, strict=True):
        for source in sorted({number // joined for number in numbers}):
            parts[source].append(entry)
    return parts
