"""The stage `read-arrow`: the rows of Arrow's own files and streams, also called Feather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.task import Task
from strandline.stages.columns import check_names
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import UnreadableFileError, explain_error, open_binary
from strandline.stages.tables.contents.first_bytes import describe_contents
from strandline.stages.tables.rows.schema_reader import SchemaReader

_KEY = "key"
_FILE, _STREAM, _END = b"ARROW1", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"


@register("read-arrow")
class ReadArrow(SchemaReader):
    """Reads the files in `path`; a row without an own `key` gets one of its file and place."""

    class Params(SchemaReader.Params):
        """How rows are read."""

        max_rows: int = Field(default=10_000, ge=1, description="Most rows of a task.")

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows.

        Raises:
            UnreadableFileError: a file can't be read, was cut, or is no Arrow.
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
    head = stream.read(len(_FILE))
    stream.seek(0)
    if head == _FILE:
        reader = pa.ipc.open_file(stream)
        check_names(reader.schema)
        yield from map(reader.get_batch, range(reader.num_record_batches))
    elif head.startswith(_STREAM):
        _check_end(file, stream)
        batches = pa.ipc.open_stream(stream)
        check_names(batches.schema)
        yield from batches
    else:
        msg = f"{file.key}: neither a file nor a stream of Arrow; {describe_contents(file.path)}"
        raise UnreadableFileError(msg)


def _check_end(file: FileReference, stream: BinaryIO) -> None:
    """Refuse a stream without its end: Arrow takes one that was cut between batches for whole."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - len(_END)))
    is_whole = stream.read() == _END
    stream.seek(0)
    if not is_whole:
        raise UnreadableFileError(
            f"{file.key}: the stream has no end, so it was cut; fetch it again"
        )
