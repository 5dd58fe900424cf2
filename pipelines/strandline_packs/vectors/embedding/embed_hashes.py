"""The stage `embed-hashes`: turns hashes into vectors, whose cosine counts equal bits."""

from __future__ import annotations

import binascii

import numpy as np
from pydantic import Field

from strandline.data.tables.columns import list_strings, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.vectors.vector_columns import VectorError, build_column


class EmbedHashes(Stage):
    """Adds `vector` with a value for each bit of a hash, so near-duplicate pictures are similar.

    If two hashes of n bits differ in k bits, the cosine of the vectors is 1 - 2k/n.
    """

    class Params(Stage.Params):
        """Names the columns."""

        column: str = Field(
            default="hash",
            min_length=1,
            description="Column of hashes in hexadecimal, as `measure-images` writes them.",
        )
        into: str = Field(default="vector", min_length=1, description="Column of the vectors.")

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def list_added(self) -> tuple[str, ...]:
        return (self.params.into,)

    def process(self, task: Task) -> Task:
        """Convert the hashes.

        Raises:
            MissingColumnError: the column is missing.
            VectorError: a value is no hexadecimal number, or lengths differ.
        """
        hashes = list_strings(task.table, self.params.column)
        if len({*map(len, hashes)}) > 1:
            msg = f"the hashes in {self.params.column!r} have different lengths"
            raise VectorError(msg)
        try:
            rows = np.array([list(binascii.unhexlify(each)) for each in hashes], np.uint8)
        except (binascii.Error, ValueError) as error:
            msg = f"the column {self.params.column!r} must have hexadecimal hashes ({error})"
            raise VectorError(msg) from None
        bits = np.unpackbits(rows.reshape(len(hashes), -1), axis=1)
        column = build_column(2.0 * bits - 1)
        return task.replace(set_column(task.table, self.params.into, column, column.type))
