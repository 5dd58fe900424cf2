"""Measures a whole shuffle, compared with `datasets.shuffle().save_to_disk()`.

Each runs in its own process, from Parquet to files in the new order. Memory is the process's peak,
including libraries. Files, tasks, and partitions have a constant number of rows, so memory must not
grow with the total.
"""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline import ExitCode, Pipeline
from strandline.stages import (
    ParquetRowGroups,
    ParquetSink,
    ReadParquet,
    ReadShuffle,
    ShufflePartitions,
    ShuffleSink,
)
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number

PART_ROWS, FEW_PARTS, BLOCK_ROWS = 250_000, 4, 256
WORDS = ("tide", "light", "sea", "harbour", "north", "stone", "wind", "salt")
MOST_GB, MOST_GROWTH, FULL = 1.0, 1.2, 100_000_000


class ShuffleCost(NamedTuple):
    """Cost of a shuffle.

    Attributes:
        seconds: seconds for both passes.
        peak: maximum memory of the process in gigabytes.
        disk: gigabytes of rows, partitions, and shards.
    """

    seconds: float
    peak: float
    disk: float


def measure_shuffle(scale: Scale) -> list[Row]:
    """Shuffle rows exactly, by blocks, and with `datasets`; then compare few with many rows."""
    return [*_compare(scale), *_reckon(scale)]


def _compare(scale: Scale) -> list[Row]:
    count, folder = scale.pick(4_000_000, 20_000), scale.folder / "compared"
    run_apart(_write, folder / "rows", count)
    what = f"{count:,} rows"
    exact = run_apart(_shuffle, folder, "exact", count, {})
    how = {"exact": False, "block_rows": BLOCK_ROWS}
    blocks = run_apart(_shuffle, folder, "blocks", count, how)
    rival, of_rival = run_apart(_shuffle_rival, folder)
    return [
        Row(f"{what}, exact: time", format_number(exact.seconds, "s")),
        bound(f"{what}, exact: memory, at most", exact.peak, MOST_GB, "GB"),
        Row(f"{what}, by blocks of {BLOCK_ROWS}: time", format_number(blocks.seconds, "s")),
        Row(f"{what}, `datasets`: time", format_number(rival, "s")),
        Row(f"{what}, `datasets`: memory, at most", format_number(of_rival, "GB")),
    ]


def _reckon(scale: Scale) -> list[Row]:
    """Shuffle few rows and ten times as many exactly, in one worker, to extrapolate the cost."""
    few = scale.pick(1_000_000, 10_000)
    many = 10 * few
    costs = {count: _shuffle_new(scale.folder / str(count), count) for count in (few, many)}
    cost, times = costs[many], FULL / many
    growth = cost.peak / costs[few].peak
    full = f"{FULL:,} rows: {times:g} times"
    return [
        *(
            bound(f"{count:,} rows in one worker: memory, at most", each.peak, MOST_GB, "GB")
            for count, each in costs.items()
        ),
        bound(f"{many:,} rows beside {few:,}: memory", growth, MOST_GROWTH, "times"),
        Row(f"{many:,} rows in one worker: time", format_number(cost.seconds, "s")),
        Row(f"{full} that time", format_number(cost.seconds * times / 60, "min")),
        Row(f"{full} its disk, with what is read", format_number(cost.disk * times, "GB")),
    ]


def _shuffle_new(folder: Path, count: int) -> ShuffleCost:
    run_apart(_write, folder / "rows", count)
    try:
        return run_apart(_shuffle, folder, "exact", count, {})
    finally:
        shutil.rmtree(folder)


def _count_parts(count: int) -> int:
    """Return the number of files, which is also the number of partitions."""
    return max(FEW_PARTS, count // PART_ROWS)


def _write(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    words = pa.array(WORDS)
    chance, files = np.random.default_rng(5), _count_parts(count)
    for at in range(files):
        numbers = range(at * count // files, (at + 1) * count // files)
        drawn = chance.integers(0, len(WORDS), (5, len(numbers)))
        columns = [words.take(pa.array(each)) for each in drawn]
        texts = pc.binary_join_element_wise(*columns, " ")
        keys = pa.array([f"rows/{number:09d}" for number in numbers])
        pq.write_table(pa.table({"key": keys, "text": texts}), folder / f"{at:04}.parquet")


def _shuffle(folder: Path, name: str, count: int, how: dict[str, Any]) -> ShuffleCost:
    """Shuffle with two pipelines, each with this process as the only worker."""
    begun = time.perf_counter()
    parted, read = folder / name / "parted", ReadParquet(max_rows=PART_ROWS)
    sink = ShuffleSink(by="key", seed=7, partitions=_count_parts(count), path=str(parted), **how)
    _run(folder / name, "parted", ParquetRowGroups(paths=[f"{folder}/rows/*"]), read, sink)
    source = ShufflePartitions(paths=[f"{parted}/**/*.parquet"])
    _run(folder / name, "ordered", source, ReadShuffle(), ParquetSink())
    seconds = time.perf_counter() - begun
    files = (path for part in ("rows", name) for path in (folder / part).rglob("*"))
    disk = sum(path.stat().st_size for path in files if path.is_file()) / 1e9
    return ShuffleCost(seconds, _read_peak(), disk)


def _run(folder: Path, name: str, source: Any, stage: Any, sink: Any) -> None:  # noqa: ANN401 - stages
    pipeline = Pipeline(name, source=source, stages=[stage], sink=sink)
    outcome = pipeline.run(folder, engine="inline", progress=False)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)


def _shuffle_rival(folder: Path) -> tuple[float, float]:
    files = sorted(map(str, folder.glob("rows/*")))
    begun = time.perf_counter()
    datasets.disable_progress_bars()
    cache = str(folder / "cache")
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    loaded.shuffle(seed=7).save_to_disk(str(folder / "rival"))
    return time.perf_counter() - begun, _read_peak()


def _read_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
