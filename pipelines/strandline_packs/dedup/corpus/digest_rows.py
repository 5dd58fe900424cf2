"""The stage `digest-rows`: puts equal rows into the same bucket, by a digest of some columns."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_comparable, list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.row_buckets import (
    BUCKETS,
    build_buckets,
    columns_of,
    mark_keys,
)
from strandline_packs.dedup.drop_duplicates import Normalisation, digest_values


class DigestRows(Stage):
    """Returns a row with the digest of each input row; equal rows share a bucket."""

    class Params(Stage.Params):
        """Configures the columns to compare, and how texts are normalized before."""

        columns: tuple[str, ...] = Field(
            default=("text",),
            min_length=1,
            description="Columns that are compared, such as `text` or `url`: texts, numbers, "
            "dates, truth values, or bytes. A row in which all of them are empty is never a "
            "duplicate.",
        )
        key: str = Field(
            default="key", description="Column with the key of the row, unique in the corpus."
        )
        normalise: Normalisation = Field(
            default=Normalisation.WHITESPACE,
            description="`none`: bytes must be equal. `whitespace`: runs of white space count as "
            "one blank. `case`: also ignores upper and lower case.",
        )

    version = "3"
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, *self.params.columns)

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(BUCKETS)

    def process(self, task: Task) -> Task:
        """Digest every row.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has lists or structs, or keys have an unsupported type.
        """
        keys = list_texts(task.table, self.params.key)
        columns = [list_comparable(task.table, name) for name in self.params.columns]
        rows = list(zip(*columns, strict=True))
        buckets = [
            [digest_values(row, self.params.normalise)] if any(map(str.strip, row)) else []
            for row in rows
        ]
        return task.replace(
            pa.concat_tables([build_buckets(keys, buckets), mark_keys(keys, task.key)])
        )
