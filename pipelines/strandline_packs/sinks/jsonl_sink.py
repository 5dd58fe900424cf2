"""The sink `jsonl`: writes JSON Lines."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from itertools import islice
from typing import Any, BinaryIO, ClassVar, cast

import pyarrow as pa
from pydantic import BaseModel, Field

from strandline.plan.stages.ends import SharingSink
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.sinks.formats.compression import CompressionLevel, ZstdFrames
from strandline_packs.sinks.json_values import format_lines


class SinkParams(Stage.Params):
    """Configures the destination of the output."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder or fsspec URL of the output; by default the pipeline's own output "
        "folder in the volume.",
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the output folder, if it is set."""
        return () if self.path is None else [("path", self.path)]


class SharingParams(SinkParams):
    """Configures the destination of the output, and whether sources share files."""

    target_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Approximate size of a file in bytes: sources that finish at about the same "
        "time share a file. By default, each source has its own file.",
    )


_LEVEL = 6  # default of the gzip command; Python's module uses 9


class JsonlCompression(StrEnum):
    """How the lines are compressed."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


_SUFFIXES = {JsonlCompression.GZIP: ".jsonl.gz", JsonlCompression.ZSTD: ".jsonl.zst"}


class JsonlSink(SharingSink):
    """Writes each row as one line of JSON, UTF-8, keys in column order."""

    class Params(SharingParams):
        """Configures the compression and layout of files."""

        compression: JsonlCompression = Field(
            default=JsonlCompression.NONE,
            description="`gzip` makes `.jsonl.gz`, `zstd` `.jsonl.zst`.",
        )
        compression_level: CompressionLevel = None

    params: Params
    suffix: str = ".jsonl"
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes", "compression_level"})

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401 - see the base class
        super().__init__(params, **values)
        self.suffix = _SUFFIXES.get(self.params.compression, self.suffix)

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the rows in order; bytes become base64, times ISO 8601, NaN and infinities null.

        Raises:
            TypeError: the task has no table.
            ValueError: two columns share a name.
        """
        with self._compress(file) as out:
            for lines in format_lines(task.table):
                if self.params.compression is JsonlCompression.NONE:
                    out.write(b"".join(lines))
                    continue
                # Write line by line: the compressed bytes depend on the size of the writes, and
                # must stay the same.
                for line in lines:
                    out.write(line)

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        with self._decompress(shared[suffix]) as lines, self._compress(file) as out:
            begin = 0
            for rows in ranges:
                for line in islice(lines, rows.start - begin, rows.stop - begin):
                    out.write(line)
                begin = rows.stop

    def _compress(self, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
        level = self.params.compression_level
        if self.params.compression is JsonlCompression.NONE:
            return nullcontext(file)
        if self.params.compression is JsonlCompression.ZSTD and level is not None:
            return cast("AbstractContextManager[BinaryIO]", ZstdFrames(file, level))
        if self.params.compression is JsonlCompression.ZSTD:
            return cast(
                "AbstractContextManager[BinaryIO]",
                pa.CompressedOutputStream(pa.PythonFile(_BorrowedFile(file), mode="w"), "zstd"),
            )
        # a fixed time and no name: the same rows give the same bytes
        level = _LEVEL if level is None else level
        packed = gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0)
        return cast("BinaryIO", packed)

    def _decompress(self, shared: BinaryIO) -> AbstractContextManager[Iterable[bytes]]:
        if self.params.compression is JsonlCompression.NONE:
            return nullcontext(shared)
        if self.params.compression is JsonlCompression.ZSTD:
            plain = pa.CompressedInputStream(pa.PythonFile(shared, mode="r"), "zstd")
            return io.BufferedReader(cast("io.RawIOBase", plain))
        return gzip.GzipFile(fileobj=shared)


class _BorrowedFile:
    """A file that Arrow must not close, because its owner does."""

    def __init__(self, file: BinaryIO) -> None:
        self.closed = False
        self.write = file.write

    def flush(self) -> None:
        """Do nothing: the owner also flushes the file."""

    def close(self) -> None:
        """Reject further writes, but keep the file open."""
        self.closed = True
