"""The source `parquet-row-groups`: row groups of Parquet files, to be read by `read-parquet`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.plan.registry import register
from strandline.plan.stage import Source, SourceStage
from strandline.stages.sources.file_references import build_reference
from strandline.stages.sources.listing import FileListParams, list_files
from strandline.stages.sources.opening import open_binary


@register("parquet-row-groups")
class ParquetRowGroups(SourceStage):
    """Lists the row groups of Parquet files, each a source; `read-parquet` reads them."""

    class Params(FileListParams):
        """Which files."""

    params: Params
    adding = frozenset({"paths"})  # the first pattern that covers a file gives it its key
    keeps_columns = False
    adds_columns = ("key", "path", "row_group")

    def list_sources(self) -> Iterator[Source]:
        """Yield every row group, under `path#rg=3`.

        A file whose footer can't be read is listed as one group, which fails when it is read, so
        that it does not keep the others from being worked on.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in list_files(self.params, self.count, self.note_gap):
            reference = build_reference(entry)
            for group in range(count_groups(entry.path)):
                data = reference.append_column("row_group", pa.array([group], pa.int32()))
                yield Source(f"{entry.key}#rg={group}", entry.version, data)


def count_groups(path: str) -> int:
    """Return the row groups of a Parquet file; 1 where its footer can't be read."""
    try:
        with open_binary(path) as file:
            return int(pq.read_metadata(file).num_row_groups)
    except (OSError, pa.ArrowException):
        return 1
