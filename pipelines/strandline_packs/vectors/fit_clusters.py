"""The stage `fit-clusters`: finds the centers of clusters in a sample of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.file_references import list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.vectors.centroids import (
    CENTROID,
    build_table,
    draw_sample,
    fit_centroids,
    list_vectors,
)
from strandline_packs.vectors.vector_columns import Vectors


class FitClusters(Stage):
    """Writes a row for each center of spherical k-means over a sample of all files.

    The task must name all files of vectors, so the source is `files` with `buckets: 1`. The sample
    depends on the keys alone.
    """

    class Params(Stage.Params):
        """Configures the sample and the number of clusters."""

        clusters: int = Field(
            default=1000, ge=1, description="Number of clusters; some 1,000 rows each is usual."
        )
        sample: int = Field(
            default=100_000, ge=1, description="Maximum number of vectors that are clustered."
        )
        seed: int = Field(default=0, ge=0, description="Seed of the first centers.")
        vector: str = Field(default="vector", min_length=1, description="Column of the vectors.")
        key: str = Field(default="key", min_length=1, description="Column of the keys.")

    scope = "corpus"
    mixes_rows = True
    params: Params
    packages: ClassVar[tuple[str, ...]] = ("faiss",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(("cluster", CENTROID))

    def process(self, task: Task) -> Task:
        """Return the centers.

        Raises:
            UnreadableFileError: a file can't be read.
            VectorError: vectors have different sizes, or there are none.
        """
        params = self.params
        sample = draw_sample(self._list_vectors(task), params.sample)
        self.count("vectors in the sample", len(sample))
        table: pa.Table = build_table(fit_centroids(sample, params.clusters, params.seed))
        return task.replace(table)

    def _list_vectors(self, task: Task) -> Iterator[tuple[str, Vectors]]:
        params = self.params
        for file in list_references(task):
            for keys, vectors in list_vectors(file, params.key, params.vector):
                yield from zip(keys, vectors, strict=True)
