"""The source `jsonl-files`: JSON Lines files, to be read by `read-jsonl`."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.plan.registry import register
from strandline.plan.stage import Source, SourceStage
from strandline.stages.sources.file_references import build_reference
from strandline.stages.sources.listing import FileListParams, list_files


@register("jsonl-files")
class JsonlFiles(SourceStage):
    """Lists JSON Lines files, each a source; `read-jsonl` turns them into rows."""

    class Params(FileListParams):
        """Which files."""

    params: Params
    adding = frozenset({"paths"})  # the first pattern that covers a file gives it its key
    keeps_columns = False
    adds_columns = ("key", "path")

    def list_sources(self) -> Iterator[Source]:
        """Yield every file that the patterns name.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        for entry in list_files(self.params, self.count, self.note_gap):
            yield Source(entry.key, entry.version, build_reference(entry))
