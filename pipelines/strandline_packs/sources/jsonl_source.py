"""The source `jsonl-files`: JSON Lines files, to be read by `read-jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.files.opening import PACKED
from strandline.data.tables.file_references import RANGE_SUFFIX, build_reference, list_ranges
from strandline.plan.stages.ends import Source


class JsonlFiles(FileSource):
    """Lists JSON Lines files, one source per file or range, for `read-jsonl`."""

    class Params(FileListParams):
        """Configures the files, and the size of ranges."""

        range_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Split each file into ranges of this many bytes. Each range is a source "
            "with the lines that start in it, so a killed run repeats less work, and "
            "several workers read one file. A row's `key` then has the byte of its "
            "line, as in `a.jsonl#B1024`. Files that end in .gz, .zst, .bz2 or .lz4 "
            "are not split. Without it, each file is a source.",
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"range_bytes"})
    adding = frozenset({"paths"})  # appended patterns change no key, because the first match wins
    keeps_columns = False
    adds_columns = ("key", "path")
    part_suffix = RANGE_SUFFIX

    def list_sources(self) -> Iterator[Source]:
        """Yield every matching file, or every range of it, without opening files.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in self.list_files(self.params):
            is_packed = entry.key.lower().endswith(PACKED)
            length = None if is_packed else self.params.range_bytes
            yield from list_ranges(entry, length, build_reference(entry), self.count)
