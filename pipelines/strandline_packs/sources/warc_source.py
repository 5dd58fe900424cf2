"""The source `warc-files`: WARC and WET files, or ranges of them, for `read-warc`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.tables.file_references import RANGE_SUFFIX, build_range, list_ranges
from strandline.plan.stages.ends import Source

# Files that can be split into byte ranges. Other files cannot be opened in the middle.
_CUT = (".gz", ".warc", ".wet", ".wat")


class WarcFiles(FileSource):
    """Lists WARC and WET files, or byte ranges of them, one source each, for `read-warc`."""

    class Params(FileListParams):
        """Configures the files, and the size of ranges."""

        range_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Split each file into ranges of this many bytes. Each range is a source "
            "with the records that start in it, so a killed run repeats less work, and "
            "several workers read one file. Files that end in .zst, .bz2 or .lz4 are "
            "not split. Without it, each file is a source.",
        )

    params: Params
    adding = frozenset({"paths"})  # appended patterns change no key, because the first match wins
    keeps_columns = False
    adds_columns = ("key", "path", "start", "stop")
    part_suffix = RANGE_SUFFIX

    def list_sources(self) -> Iterator[Source]:
        """Yield every file, or every range with a key such as `path#bytes=0-1048575`.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in self.list_files(self.params):
            length = self.params.range_bytes if entry.key.lower().endswith(_CUT) else None
            yield from list_ranges(entry, length, build_range(entry, 0, None), self.count)
