"""Runs jobs with datatrove's local executor: a task per file, a worker per core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xxhash
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter, LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import ParquetWriter

from strandline_bench.products.functions import CORES, is_kept, run_program

BANDS, ROWS, WORDS = 14, 8, 5


def filter_documents(source: Path, target: Path) -> None:
    """Filter documents by a function."""
    _run(source, target, [LambdaFilter(lambda document: is_kept(document.text))])


def filter_quality(source: Path, target: Path) -> None:
    """Apply Gopher's rules."""
    _run(source, target, [GopherRepetitionFilter(), GopherQualityFilter()])


def drop_near(source: Path, target: Path) -> None:
    """Run the four steps of MinHash."""
    config = MinhashConfig(n_grams=WORDS, num_buckets=BANDS, hashes_per_bucket=ROWS)
    signatures, buckets, remove = (str(target / name) for name in ("s", "b", "r"))
    signing = MinhashDedupSignature(signatures, config)
    signing._hash_func = _hash_run  # noqa: SLF001 - its own does not run with xxhash 4
    tasks = len(list(source.iterdir()))
    steps: list[tuple[int, list[Any]]] = [
        (tasks, [JsonlReader(str(source)), signing]),
        (BANDS, [MinhashDedupBuckets(signatures, buckets, config=config)]),
        (1, [MinhashDedupCluster(buckets, remove, config=config)]),
        (tasks, [JsonlReader(str(source)), MinhashDedupFilter(remove), _write(target)]),
    ]
    for at, (number, pipeline) in enumerate(steps):
        _execute(pipeline, number, target / f"logs-{at}")


def _run(source: Path, target: Path, filters: list[Any]) -> None:
    """Run filters. datatrove skips the tasks that its logs list as finished."""
    pipeline = [JsonlReader(str(source)), *filters, _write(target)]
    _execute(pipeline, len(list(source.iterdir())), target / "logs")


def _execute(pipeline: list[Any], tasks: int, logs: Path) -> None:
    workers = min(CORES, tasks)
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=workers, logging_dir=str(logs)).run()


def _write(target: Path) -> Any:  # noqa: ANN401 - it comes without types
    return ParquetWriter(str(target / "kept"), compression="zstd")


def _hash_run(text: str) -> int:
    return xxhash.xxh64_intdigest(text.encode())


if __name__ == "__main__":
    run_program(
        {
            "filter": filter_documents,
            "words": filter_documents,
            "quality": filter_quality,
            "near": drop_near,
        }
    )
