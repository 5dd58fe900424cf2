"""The source `files`: one source per file, or a fixed number of buckets of files."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from strandline.data.files.buckets import FILE_SCHEMA, build_file_table, pack_buckets
from strandline.data.files.listing import FileListParams, FileSource
from strandline.plan.stages.ends import Source


class Files(FileSource):
    """Lists files by glob or URL, as rows of key, path, size, and mtime_ns, without content."""

    class Params(FileListParams):
        """Configures the files, and their grouping into buckets."""

        buckets: int | None = Field(
            default=None,
            ge=1,
            description="Number of sources to pack the files into, by digest of their key, so that "
            "small files result in few outputs. Without it, each file is a source.",
        )

    params: Params
    adding = frozenset({"paths"})  # appended patterns change no key, because the first match wins
    keeps_columns = False
    adds_columns = tuple(FILE_SCHEMA.names)

    @property
    def packed_under(self) -> str:
        return "" if self.params.buckets is None else "bucket"

    def list_sources(self) -> Iterator[Source]:
        """Yield every file or every bucket that has files.

        Raises:
            OSError: a folder is missing or can't be read.
        """
        entries = self.list_files(self.params)
        if self.params.buckets is not None:
            yield from pack_buckets(entries, self.params.buckets)
            return
        for entry in entries:
            yield Source(entry.key, entry.version, build_file_table([entry]))
