"""The sink `shuffle`: what a pass over a corpus leaves for the next one, parted by a digest."""

from __future__ import annotations

from typing import BinaryIO

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import SinkStage
from strandline.plan.task import Task
from strandline.stages.sinks.jsonl_sink import SinkParams
from strandline.stages.sources.shuffle_files import write_partitions


@register("shuffle")
class ShuffleSink(SinkStage):
    """Writes rows by partition; `shuffle-partitions` of another pipeline lists them."""

    class Params(SinkParams):
        """What parts the rows, and into how many partitions."""

        by: str = Field(
            default="bucket",
            description="Column of digests; rows with the same one are in the same partition.",
        )
        partitions: int = Field(
            default=64,
            ge=1,
            le=65_536,
            description="Number of partitions. A worker of the next pipeline holds one of them.",
        )

    params: Params
    suffix: str = ".parquet"
    writes_empty: bool = True  # the next pipeline has partitions to list, whatever is in them

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.by,)

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the partitions one after another, each as a row group.

        Raises:
            TypeError: the task carries no table, or the column no digests.
            MissingColumnError: there is no such column.
        """
        write_partitions(task.table, self.params.by, self.params.partitions, file)
