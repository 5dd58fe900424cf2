"""The sink `shuffle`: writes rows by partition, for the next pipeline to read."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

from pydantic import Field

from strandline.plan.stages.ends import SinkStage
from strandline.plan.task import Task
from strandline_packs.sinks.jsonl_sink import SinkParams
from strandline_packs.tables.shuffle.partition_files import PartitionRules, write_partitions
from strandline_packs.tables.shuffle.row_weights import Scales


class ShuffleSink(SinkStage):
    """Writes rows by partition; `shuffle-partitions` of the next pipeline lists the partitions."""

    class Params(SinkParams):
        """Configures the column that partitions the rows, and the number of partitions."""

        by: str = Field(
            default="bucket",
            description="Column of digests; rows with the same one are in the same partition. "
            "With a `seed`, column of keys, such as `key`.",
        )
        partitions: int = Field(
            default=64,
            ge=1,
            le=65_536,
            description="Number of partitions. A worker of the next pipeline holds one partition.",
        )
        seed: int | None = Field(
            default=None,
            description="Seed of the order in which `read-shuffle` returns the rows. The order "
            "depends only on the seed and the keys. Rows with the same key keep the order of the "
            "files.",
        )
        exact: bool = Field(
            default=True,
            description="With a `seed`: false draws a partition for each `blockRows` consecutive "
            "rows, and shuffles rows within partitions, which is cheaper but not uniform.",
        )
        block_rows: int = Field(
            default=256,
            ge=1,
            description="Number of rows of a task that stay together if not `exact`.",
        )

        stratum: str | None = Field(
            default=None,
            min_length=1,
            description="Column with the stratum of a row, such as `language`, for a `mix` with "
            "`strata`.",
        )
        bytes: str | None = Field(
            default=None,
            min_length=1,
            description="Column with text or bytes, for a `mix` by bytes.",
        )
        tokens: str | None = Field(
            default=None,
            min_length=1,
            description="Column with the number of tokens, or with lists of them, for a `mix` by "
            "tokens.",
        )

    params: Params
    suffix: str = ".parquet"
    writes_empty: bool = True  # the next pipeline lists every partition, even without rows
    added_params: ClassVar[frozenset[str]] = frozenset(
        {"seed", "exact", "block_rows", "stratum", "bytes", "tokens"}
    )

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.by, *self._scales.columns)

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the partitions one after another, each as a row group.

        Raises:
            TypeError: the task has no table, or the column has no digests or keys.
            MissingColumnError: the column is missing.
        """
        params = self.params
        block = 1 if params.exact else params.block_rows
        parting = PartitionRules(params.partitions, params.by, params.seed, block, self._scales)
        write_partitions(task.table, parting, file)

    @property
    def _scales(self) -> Scales:
        params = self.params
        return Scales(params.stratum, params.bytes, params.tokens)
