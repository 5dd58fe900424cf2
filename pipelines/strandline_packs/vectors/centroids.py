"""Centers of clusters: k-means over a sample, and the file that later passes read."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strandline.data.tables.file_references import FileReference
from strandline.plan.packages import load_module
from strandline_packs.dedup.corpus.pass_files import read_portions
from strandline_packs.dedup.key_lists import list_key_files
from strandline_packs.vectors.vector_columns import VectorError, Vectors, read_vectors, scale

CENTROID = "centroid"
_ITERATIONS = 25
_ROWS = 10_000  # rows whose vectors are in memory together


def draw_sample(rows: Iterable[tuple[str, Vectors]], most: int) -> Vectors:
    """Return the vectors whose keys have the smallest digests, in the order of the digests.

    The sample depends only on the keys, so neither on workers nor on the order of files.

    Raises:
        VectorError: vectors have different sizes, or there are none.
    """
    # Bytes, which decide between rows with equal keys; arrays can't be ordered.
    heap: list[tuple[int, str, bytes]] = []
    size: int | None = None
    for key, vector in rows:
        size = len(vector) if size is None else size
        if len(vector) != size:
            msg = f"{key}: its vector has {len(vector)} values and others have {size}"
            raise VectorError(msg)
        rank = -int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
        if len(heap) < most:
            heapq.heappush(heap, (rank, key, vector.tobytes()))
        elif rank >= heap[0][0]:
            heapq.heappushpop(heap, (rank, key, vector.tobytes()))
    if not heap:
        msg = "there are no vectors to cluster; check the files of the source"
        raise VectorError(msg)
    heap.sort(reverse=True)
    sample = np.empty((len(heap), size or 0), np.float32)
    for row, (_, _, content) in zip(sample, heap, strict=True):
        row[:] = np.frombuffer(content, np.float32)
    return sample


def fit_centroids(sample: Vectors, clusters: int, seed: int) -> Vectors:
    """Return the centers of spherical k-means, of shape (clusters, values).

    A sample smaller than the number of clusters gives as many clusters as vectors.

    Raises:
        ImportError: faiss is missing.
    """
    faiss = load_module("faiss")
    # In blocks: 64-bit copies of the whole sample would take most of the memory.
    blocks = (sample[at : at + _ROWS] for at in range(0, len(sample), _ROWS))
    units = np.concatenate([scale(block).astype(np.float32) for block in blocks])
    count = min(clusters, len(units))
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # sums of several threads would differ between machines
    try:
        means = faiss.Kmeans(
            units.shape[1],
            count,
            niter=_ITERATIONS,
            seed=seed,
            spherical=True,
            min_points_per_centroid=1,
            max_points_per_centroid=len(units),
        )
        means.train(units)
    finally:
        faiss.omp_set_num_threads(before)
    return np.asarray(means.centroids)


def assign_rows(
    vectors: Vectors, centroids: Vectors
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the nearest center of each vector, and the cosine with it.

    Raises:
        VectorError: vectors and centers have different sizes.
    """
    if vectors.shape[1] != centroids.shape[1]:
        msg = f"vectors have {vectors.shape[1]} values, and the centers {centroids.shape[1]}"
        raise VectorError(msg)
    units, centers = scale(vectors), scale(centroids)
    # Products of matrices depend on the number of rows, and products of single rows do not.
    nearest = np.argmax(units.astype(np.float32) @ centers.astype(np.float32).T, axis=1)
    return nearest, np.einsum("ij,ij->i", units, centers[nearest])


def read_centroids(path: str) -> Vectors:
    """Return the centers in the files of a path, a pattern, or a folder; none without files.

    Raises:
        UnreadableFileError: a file can't be read, or has no centers.
    """
    files = [FileReference(each, each) for each in list_key_files(path)]
    tables = [table for file in files for table in read_portions(file, [CENTROID])]
    parts = [read_vectors(table, CENTROID) for table in tables]
    return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)


def build_table(centroids: Vectors) -> pa.Table:
    """Return a row for each center, as 32-bit floats."""
    flat: Any = pa.array(np.ascontiguousarray(centroids, np.float32).ravel())
    column = pa.FixedSizeListArray.from_arrays(flat, centroids.shape[1])
    return pa.table({"cluster": pa.array(range(len(centroids)), pa.int32()), CENTROID: column})


def list_vectors(file: FileReference, key: str, vector: str) -> Iterator[tuple[list[str], Vectors]]:
    """Yield keys and vectors of a Parquet file, in portions of rows.

    Args:
        key, vector: columns of the keys and the vectors.

    Raises:
        UnreadableFileError: the file can't be read.
        MissingColumnError: a column is missing.
        VectorError: the column has no vectors of one size.
    """
    for portion in read_portions(file, [key, vector]):
        # Fewer rows at a time, because vectors take eight times as much memory in 64 bits.
        for start in range(0, portion.num_rows, _ROWS):
            table = portion.slice(start, _ROWS)
            yield [str(each) for each in table[key].to_pylist()], read_vectors(table, vector)
