"""The source `warc-files`: WARC and WET files, or ranges of them, to be read by `read-warc`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Source
from strandline.stages.sources.file_references import (
    LARGE_BYTES,
    LARGE_SOURCE,
    RANGE_SUFFIX,
    build_range,
    can_cut,
    cut_file,
)
from strandline.stages.sources.listing import FileListParams, FileSource, list_files
from strandline.stages.sources.places.listed import ListedFile

# Others can't be opened in the middle.
_CUT = (".gz", ".warc", ".wet", ".wat")


@register("warc-files")
class WarcFiles(FileSource):
    """Lists WARC and WET files, or ranges of their bytes, each a source for `read-warc`."""

    class Params(FileListParams):
        """Which files, and whether they are cut."""

        range_bytes: int | None = Field(
            default=None,
            ge=1,
            description="Cut each file into ranges of so many bytes, each a source: the records "
            "that begin in it. So a run that was killed does less again, and several workers read "
            "one file. Files that end in .zst, .bz2 or .lz4 stay whole. Without it each file is a "
            "source.",
        )

    params: Params
    adding = frozenset({"paths"})  # the first pattern that covers a file gives it its key
    keeps_columns = False
    adds_columns = ("key", "path", "start", "stop")
    part_suffix = RANGE_SUFFIX

    def list_sources(self) -> Iterator[Source]:
        """Yield every file, or every range under `path#bytes=0-1048575`; no file is opened.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in list_files(self.params, self.count, self.note_gap, self.published):
            yield from self._cut(entry)

    def _cut(self, entry: ListedFile) -> Iterator[Source]:
        length = self.params.range_bytes
        if length is not None and entry.key.lower().endswith(_CUT) and can_cut(entry):
            yield from cut_file(entry, length)
            return
        if entry.size > LARGE_BYTES:
            self.count(LARGE_SOURCE)
        yield Source(entry.key, entry.version, build_range(entry, 0, None))
