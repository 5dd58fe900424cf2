"""The same job as a program of each product: JSON Lines, a filter in Python, Parquet.

`python -m strandline_bench.products.programs NAME INPUT OUTPUT`. Each is written as the product's
own documentation does it, with all cores of the machine, and loads that product alone.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import pyarrow as pa

from strandline.plan.stage import Stage
from strandline.plan.task import Task

CORES = len(os.sched_getaffinity(0))


def is_kept(text: str) -> bool:
    """Return what the user's function says of a text."""
    return text.count("e") % 3 != 0


class KeepTexts(Stage):
    """The function as a stage of ours."""

    def process(self, task: Task) -> Task:
        """Return the rows that it keeps."""
        texts = task.table["text"].to_pylist()
        return task.replace(task.table.filter(pa.array([is_kept(text) for text in texts])))


def _filter_file(paths: tuple[str, str]) -> None:
    import pyarrow.json as pj  # noqa: PLC0415 - each program loads its own
    import pyarrow.parquet as pq  # noqa: PLC0415 - see above

    table = pj.read_json(paths[0])
    kept = pa.array([is_kept(text) for text in table["text"].to_pylist()])
    pq.write_table(table.filter(kept), paths[1], compression="zstd")


def run_pool(source: Path, target: Path) -> None:
    """Run a pool of processes over the files, which says nothing of what is done."""
    paths = [(str(path), f"{target}/{path.stem}.parquet") for path in sorted(source.iterdir())]
    with Pool(CORES) as pool:
        pool.map(_filter_file, paths, chunksize=1)


def run_polars(source: Path, target: Path) -> None:
    """Run a lazy query with a function."""
    import polars as pl  # noqa: PLC0415 - see above

    kept = pl.col("text").map_elements(is_kept, return_dtype=pl.Boolean)
    pl.scan_ndjson(source / "*.jsonl").filter(kept).sink_parquet(target / "kept.parquet")


def run_datasets(source: Path, target: Path) -> None:
    """Run `load_dataset`, `filter` and `to_parquet`."""
    import datasets  # noqa: PLC0415 - see above

    datasets.disable_progress_bars()
    files = sorted(map(str, source.iterdir()))
    cache = str(target / "cache")
    loaded = datasets.load_dataset("json", data_files=files, split="train", cache_dir=cache)
    kept = loaded.filter(is_kept, input_columns="text", num_proc=CORES)
    kept.to_parquet(str(target / "kept.parquet"))


def run_daft(source: Path, target: Path) -> None:
    """Run a data frame with a function of a row, on the engine that comes with it."""
    import daft  # noqa: PLC0415 - see above

    keep = daft.func(is_kept, return_dtype=daft.DataType.bool())
    frame = daft.read_json(f"{source}/*.jsonl")
    frame.where(keep(daft.col("text"))).write_parquet(str(target))


def run_datatrove(source: Path, target: Path) -> None:
    """Run a reader, a lambda filter and a writer by the local executor."""
    from datatrove.executor import LocalPipelineExecutor  # noqa: PLC0415 - see above
    from datatrove.pipeline.filters import LambdaFilter  # noqa: PLC0415 - see above
    from datatrove.pipeline.readers import JsonlReader  # noqa: PLC0415 - see above
    from datatrove.pipeline.writers import ParquetWriter  # noqa: PLC0415 - see above

    steps: list[Any] = [
        JsonlReader(str(source)),
        LambdaFilter(lambda document: is_kept(document.text)),
        ParquetWriter(str(target), compression="zstd"),
    ]
    LocalPipelineExecutor(
        pipeline=steps, tasks=len(list(source.iterdir())), workers=CORES, skip_completed=False
    ).run()


PROGRAMS = {
    "pool": run_pool,
    "polars": run_polars,
    "datasets": run_datasets,
    "daft": run_daft,
    "datatrove": run_datatrove,
}

if __name__ == "__main__":
    from strandline_bench.products.programs import PROGRAMS as BY_NAME

    BY_NAME[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
