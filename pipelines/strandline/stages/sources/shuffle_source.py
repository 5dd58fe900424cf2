"""The source `shuffle-partitions`: partitions of what another pipeline has shuffled."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from strandline.plan.registry import register
from strandline.plan.stage import Source
from strandline.stages.sources.buckets import build_file_table, digest_members
from strandline.stages.sources.listing import FileListParams, FileSource
from strandline.stages.sources.opening import UnreadableFileError
from strandline.stages.sources.shuffle_files import count_partitions


@register("shuffle-partitions")
class ShufflePartitions(FileSource):
    """Lists the partitions in files of the sink `shuffle`, each a source for `read-shuffle`."""

    class Params(FileListParams):
        """Which files."""

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "partition", "partitions")

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
        try:
            count, version = count_partitions(entries[0].path), digest_members(entries)
        except UnreadableFileError as error:
            raise OSError(str(error)) from error
        files = build_file_table(entries).select(["key", "path"])
        for number in range(count):
            data = files
            for name, value in (("partition", number), ("partitions", count)):
                data = data.append_column(name, pa.repeat(pa.scalar(value, pa.int32()), len(files)))
            yield Source(f"partition/{number:05d}-of-{count:05d}", version, data)
