"""The stage `assign-cluster`: adds the nearest center of each row's vector."""

from __future__ import annotations

from hashlib import blake2b
from typing import Self

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.columns import set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.key_lists import DIGEST_BYTES, digest_bytes
from strandline_packs.vectors.centroids import assign_rows, read_centroids
from strandline_packs.vectors.vector_columns import VectorError, Vectors, read_vectors


class AssignCluster(Stage):
    """Adds `cluster`, `closeness` (the cosine with its center), and `bucket` for `shuffle`."""

    class Params(Stage.Params):
        """Configures the centers and the vectors."""

        path: str = Field(
            min_length=1,
            description="Parquet files with the centers that `fit-clusters` of another pipeline "
            "wrote: a file, a pattern, or a folder with a trailing slash.",
        )
        vector: str = Field(default="vector", min_length=1, description="Column of the vectors.")
        _digest: str = PrivateAttr(default="")

        @model_validator(mode="after")
        def _read(self) -> Self:
            try:
                self._digest = digest_centroids(read_centroids(self.path))
            except (UnreadableFileError, VectorError) as error:
                raise ValueError(str(error)) from error
            return self

        @property
        def digest(self) -> str:
            """Digest of the centers at planning time."""
            return self._digest

    scope = "list"
    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.vector,)

    def list_added(self) -> tuple[str, ...]:
        return ("cluster", "closeness", "bucket")

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the centers."""
        return {"path": self.params.digest}

    def setup(self) -> None:
        """Load the centers.

        Raises:
            UnreadableFileError: there are no centers.
            ChangedListError: the centers have changed since planning.
        """
        self._centroids = read_centroids(self.params.path)
        if not len(self._centroids):
            # During planning, another pipeline may still have to write the file.
            msg = f"{self.params.path}: there are no centers; run the pipeline with `fit-clusters`"
            raise UnreadableFileError(msg)
        if digest_centroids(self._centroids) != self.params.digest:
            msg = f"{self.params.path}: the centers changed during the run; run the pipeline again"
            raise ChangedListError(msg)

    def process(self, task: Task) -> Task:
        """Assign every row.

        Raises:
            MissingColumnError: the column is missing.
            VectorError: the column has no vectors of the size of the centers.
        """
        vectors, table = read_vectors(task.table, self.params.vector), task.table
        if not len(vectors):
            nearest, closeness = np.empty(0, np.int64), np.empty(0)
        else:
            nearest, closeness = assign_rows(vectors, self._centroids)
        buckets = [digest_bytes(int(each).to_bytes(8, "big")) for each in nearest]
        table = set_column(table, "cluster", pa.array(nearest, pa.int32()), pa.int32())
        table = set_column(table, "closeness", pa.array(closeness, pa.float64()), pa.float64())
        kind = pa.binary(DIGEST_BYTES)
        return task.replace(set_column(table, "bucket", pa.array(buckets, kind), kind))


def digest_centroids(centroids: Vectors) -> str:
    """Return a digest of the centers' values."""
    shape = repr(centroids.shape).encode()
    return blake2b(shape + centroids.tobytes(), digest_size=16).hexdigest()
