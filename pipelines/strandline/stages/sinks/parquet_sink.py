"""The sink `parquet`."""

from __future__ import annotations

from enum import StrEnum
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import SinkStage
from strandline.plan.task import Task
from strandline.stages.sinks.sink_params import SinkParams


class ParquetCompression(StrEnum):
    """How pages are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


@register("parquet")
class ParquetSink(SinkStage):
    """Writes each task as one Parquet file; equal tables give equal bytes, however chunked."""

    class Params(SinkParams):
        """How the file is laid out."""

        compression: ParquetCompression = Field(
            default=ParquetCompression.ZSTD, description="Compression of the pages."
        )
        row_group_rows: int = Field(default=65_536, ge=1, description="Most rows of a row group.")

    params: Params
    suffix: str = ".parquet"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the table front to back.

        Raises:
            TypeError: the task carries no table.
        """
        pq.write_table(
            task.table.combine_chunks(),  # pages are cut where chunks end
            pa.PythonFile(file, mode="w"),
            compression=self.params.compression.value,
            row_group_size=self.params.row_group_rows,
        )
