"""The source `parquet-row-groups`: row groups of Parquet files, to be read by `read-parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.listed import ListedFile
from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.files.opening import open_binary
from strandline.data.tables.file_references import build_reference
from strandline.plan.stages.ends import Source, SourceStage

GROUP_SUFFIX = r"#rg=\d+"
_TRIES = 2  # a store that fails to answer often answers a second request


class ParquetRowGroups(FileSource):
    """Lists the row groups of Parquet files, one source each, for `read-parquet`."""

    class Params(FileListParams):
        """Configures the files to list."""

    params: Params
    adding = frozenset({"paths"})  # appended patterns change no key, because the first match wins
    keeps_columns = False
    adds_columns = ("key", "path", "row_group")
    part_suffix = GROUP_SUFFIX

    def list_sources(self) -> Iterator[Source]:
        """Yield every row group, with a key such as `path#rg=3`.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in self.list_files(self.params):
            yield from list_groups(entry, build_reference(entry), self)


def list_groups(entry: ListedFile, reference: pa.Table, stage: SourceStage) -> Iterator[Source]:
    """Yield the row groups of a Parquet file, or a single source for a file without row groups.

    If the footer is unreadable, yield the first group, which fails when a worker reads the file.
    The other files can still be processed. The number of groups is unknown then, so groups of
    earlier runs do not count as removed.

    Args:
        entry: the listed file.
        reference: the file as a row without the column `row_group`. The added column is null if the
            footer is unreadable.
        stage: counts unreadable files, and notes them as gaps.
    """
    number = count_groups(entry.path)
    if number is None:
        stage.count("not looked at: footer of a Parquet file that can't be read")
        stage.note_gap(f"the footer of {entry.key!r} can't be read", entry.key)
    groups = [None] if number is None else range(max(number, 1))
    for group in groups:
        data = reference.append_column("row_group", pa.array([group], pa.int32()))
        yield Source(f"{entry.key}#rg={group or 0}", entry.version, data)


def count_groups(path: str) -> int | None:
    """Return the number of row groups of a Parquet file, or None if its footer is unreadable."""
    for _ in range(_TRIES):
        with suppress(Exception), open_binary(path) as file:  # the error type depends on the store
            return int(pq.read_metadata(file).num_row_groups)
    return None
