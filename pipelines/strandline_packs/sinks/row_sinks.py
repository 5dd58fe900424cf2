"""The sinks `csv` and `arrow`, for tools that read neither Parquet nor JSON."""

from __future__ import annotations

import csv
from enum import StrEnum
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import check_names
from strandline.plan.stages.ends import SinkStage
from strandline.plan.task import Task
from strandline_packs.sinks.formats.compression import CompressionLevel
from strandline_packs.sinks.json_values import encode_value, list_rows
from strandline_packs.sinks.jsonl_sink import SinkParams


class CsvSink(SinkStage):
    """Writes each task as a CSV file in UTF-8, with column names in the first line."""

    class Params(SinkParams):
        """Sets the delimiter."""

        delimiter: str = Field(
            default=",", min_length=1, max_length=1, description="Separator between values."
        )

    params: Params
    suffix: str = ".csv"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the rows. null and NaN become empty, lists and maps JSON, and bytes base64.

        Raises:
            TypeError: the task has no table.
            ValueError: two columns share a name.
        """
        writer = csv.writer(
            _EncodedText(file), delimiter=self.params.delimiter, lineterminator="\n"
        )
        names = task.table.column_names
        writer.writerow(names)
        for row in list_rows(task.table):
            writer.writerow([_format_value(row[name]) for name in names])


class ArrowCompression(StrEnum):
    """How buffers are compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


class ArrowSink(SinkStage):
    """Writes each task as an Arrow file, also called Feather, which readers can memory-map."""

    class Params(SinkParams):
        """Configures the layout of files."""

        compression: ArrowCompression = Field(
            default=ArrowCompression.NONE, description="Compression of the buffers."
        )
        compression_level: CompressionLevel = None
        batch_rows: int = Field(
            default=65_536, ge=1, description="Maximum number of rows of a batch."
        )

    params: Params
    suffix: str = ".arrow"
    added_params: ClassVar[frozenset[str]] = frozenset({"compression_level"})

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the table in batches. The chunks of the table do not affect the bytes.

        Raises:
            TypeError: the task has no table.
            ValueError: two columns share a name.
        """
        check_names(task.table.schema)
        packing = self.params.compression
        level = self.params.compression_level
        options = pa.ipc.IpcWriteOptions(
            compression=None
            if packing is ArrowCompression.NONE
            else pa.Codec(packing.value, compression_level=level)
        )
        table = task.table.combine_chunks()
        sink = pa.PythonFile(file, mode="w")
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            for batch in table.to_batches(max_chunksize=self.params.batch_rows):
                writer.write_batch(batch)


class _EncodedText:
    """Text stream that encodes into a binary file, and never closes the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(text.encode())


def _format_value(value: Any) -> object:  # noqa: ANN401 - values of any column
    if value is None or isinstance(value, str):
        return value
    text = encode_value(value)
    # Times and bytes are JSON strings: remove the quotes, because `csv` adds quotes if needed.
    return "" if text == "null" else text.removeprefix('"').removesuffix('"')
