"""The sink `parquet-partitions`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from strandline.plan.registry import register
from strandline.plan.stage import SinkStage, Source
from strandline.plan.task import Task
from strandline.stages.columns import find_column
from strandline.stages.parquet_sink import ParquetCompression
from strandline.stages.sink_params import SinkParams


@register("parquet-partitions")
class ParquetPartitions(SinkStage):
    """Writes one Parquet file per partition of the sources, with a row group for each member."""

    class Params(SinkParams):
        """What makes a partition, and how its file is laid out."""

        by: str = Field(
            description="Regular expression; sources in whose keys it finds the same text share a "
            "file. One in whose key it finds nothing has a file of its own."
        )
        member: str = Field(
            default="key",
            description="Column that says which member a row is of; its values, in order, make "
            "the row groups.",
        )
        compression: ParquetCompression = Field(
            default=ParquetCompression.ZSTD, description="Compression of the pages."
        )

        @field_validator("by")
        @classmethod
        def _check_by(cls, by: str) -> str:
            try:
                re.compile(by)
            except re.error as error:
                msg = f"must be a regular expression: {error}"
                raise ValueError(msg) from error
            return by

    params: Params
    suffix: str = ".parquet"

    def partition_indices(self, source: Source) -> Iterable[str]:
        """The text that `by` finds in the source's key."""
        found = re.search(self.params.by, source.key)
        return [found[0]] if found else []

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the members one after another, each as a row group, its rows in their order.

        Raises:
            TypeError: the task carries no table.
            MissingColumnError: there is no column that names the members.
        """
        with pq.ParquetWriter(
            pa.PythonFile(file, mode="w"),
            task.table.schema,
            compression=self.params.compression.value,
        ) as writer:
            for rows in self._split(task.table):
                writer.write_table(rows, row_group_size=rows.num_rows)

    def _split(self, table: pa.Table) -> Iterator[pa.Table]:
        """The rows of each member, whose values are in order."""
        members = _unwrap(find_column(table, self.params.member))
        order = pc.sort_indices(members)  # equal ones stay as they stand
        # Taking copies all rows, and fails where a column has 2 GB of text; mostly it changes none.
        if not _is_rising(order):
            table, members = table.take(order), members.take(order)
        ends = pc.run_end_encode(members.combine_chunks()).run_ends.to_pylist()
        for begin, end in zip([0, *ends], ends, strict=False):
            yield table.slice(begin, end - begin).combine_chunks()


def _unwrap(members: pa.ChunkedArray) -> pa.ChunkedArray:
    """The members in a type that can be sorted and cut into runs."""
    kind = members.type
    if pa.types.is_dictionary(kind):
        return _unwrap(members.cast(kind.value_type))
    return members.cast(pa.large_string()) if pa.types.is_string_view(kind) else members


def _is_rising(order: pa.Array) -> bool:
    steps = pc.greater(order.slice(1), order.slice(0, max(len(order) - 1, 0)))
    return bool(pc.all(steps, min_count=0).as_py())
