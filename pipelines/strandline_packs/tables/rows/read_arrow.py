"""The stage `read-arrow`: reads the rows of Arrow files and streams, also called Feather."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import BinaryIO

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError, explain_error, open_binary
from strandline.data.tables.columns import check_names
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import SchemaReader
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import describe_contents

_KEY = "key"
_FILE, _STREAM, _END = b"ARROW1", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
_MARK_BYTES = 8  # the signature of a file, with padding
_TAIL_BYTES = 10  # the footer length and the final signature
_BLOCK = 1 << 20


class ReadArrow(SchemaReader):
    """Reads the files in `path`. A row without a `key` gets a key from its file and position."""

    class Params(SchemaReader.Params):
        """Configures the maximum size of a task."""

        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file can't be read, is truncated, or is not an Arrow file.
        """
        for file in list_references(task):
            try:
                with open_binary(file.path) as stream:
                    yield from map(task.replace, self._read(file, stream))
            except (OSError, pa.ArrowException, ValueError) as error:
                raise explain_error(file.key, error) from error

    def _read(self, file: FileReference, stream: BinaryIO) -> Iterator[pa.Table]:
        row = 0
        for batch in _list_batches(file, stream):
            for start in range(0, batch.num_rows, self.params.max_rows):
                table = pa.Table.from_batches([batch.slice(start, self.params.max_rows)])
                if _KEY not in table.column_names:
                    names = [f"{file.key}#{at}" for at in range(row, row + table.num_rows)]
                    table = table.add_column(0, _KEY, pa.array(names, pa.string()))
                yield self.conform(file.key, table)
                row += table.num_rows


def _list_batches(file: FileReference, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the concatenated Arrow files and streams in a file."""
    size = stream.seek(0, os.SEEK_END)
    at = 0
    # An empty file enters the loop once, to be rejected.
    while at < size or not size:
        stream.seek(at)
        head = stream.read(len(_FILE))
        if head == _FILE:
            at = yield from _read_file(file, stream, at, size)
        elif head.startswith(_STREAM):
            _check_end(file, stream, size)
            at = yield from _read_stream(stream, at)
        elif at:
            what = f"only the first {at:,} bytes are Arrow"
            raise UnreadableFileError(f"{file.key}: {what}; write each part to a separate file")
        else:
            msg = f"{file.key}: neither an Arrow file nor an Arrow stream"
            raise UnreadableFileError(f"{msg}; {describe_contents(file.path)}")


def _read_stream(stream: BinaryIO, begin: int) -> Generator[pa.RecordBatch, None, int]:
    """Yield the batches of one stream; return the stream's end."""
    stream.seek(begin)
    batches = pa.ipc.open_stream(stream)
    check_names(batches.schema)
    yield from batches
    return stream.tell()


def _read_file(
    file: FileReference, stream: BinaryIO, begin: int, size: int
) -> Generator[pa.RecordBatch, None, int]:
    """Yield the batches of one file (a mark, a stream, and a footer); return the file's end."""
    if not begin and not _ends_as_stream(stream, size):
        # Old writers put no end between stream and footer, so only the footer locates the batches.
        reader = pa.ipc.open_file(stream)
        check_names(reader.schema)
        yield from map(reader.get_batch, range(reader.num_record_batches))
        return size
    end = yield from _read_stream(stream, begin + _MARK_BYTES)
    return _find_footer_end(file, stream, end)


def _ends_as_stream(stream: BinaryIO, size: int) -> bool:
    """Return whether the last stream has an end marker, possibly followed by a footer."""
    tail = _read_at(stream, size - _TAIL_BYTES, _TAIL_BYTES)
    if not tail.endswith(_FILE):
        return True
    begin = size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
    return _read_at(stream, begin - len(_END), len(_END)) == _END


def _find_footer_end(file: FileReference, stream: BinaryIO, begin: int) -> int:
    """Return the end of the footer that follows a stream.

    Raises:
        UnreadableFileError: the footer is incomplete.
    """
    stream.seek(begin)
    footer = b""
    while piece := stream.read(_BLOCK):
        footer += piece
        at = footer.find(_FILE)
        while at >= 0:
            # Check the length: the mark may belong to the next file instead of this footer.
            if at >= 4 and int.from_bytes(footer[at - 4 : at], "little") == at - 4:  # noqa: PLR2004 - bytes of a number
                return begin + at + len(_FILE)
            at = footer.find(_FILE, at + 1)
    raise UnreadableFileError(
        f"{file.key}: the file has no footer, so it is truncated; fetch it again"
    )


def _read_at(stream: BinaryIO, begin: int, size: int) -> bytes:
    stream.seek(max(0, begin))
    return stream.read(size)


def _check_end(file: FileReference, stream: BinaryIO, size: int) -> None:
    """Reject a stream without an end: Arrow would accept a file cut between two batches."""
    last = _read_at(stream, size - len(_END), len(_END))
    if last != _END and not last.endswith(_FILE):
        raise UnreadableFileError(
            f"{file.key}: the stream has no end, so it is truncated; fetch it again"
        )
