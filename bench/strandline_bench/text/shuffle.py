"""What a whole shuffle costs beside `datasets.shuffle().save_to_disk()`: the same small rows.

Each is done in a process of its own, from Parquet to files in the new order; memory is the most
that the process held, with its libraries.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

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

FILES, PARTITIONS, BLOCK_ROWS = 16, 16, 256
WORDS = ("tide", "light", "sea", "harbour", "north", "stone", "wind", "salt")
MOST_GB, FULL = 1.0, 100_000_000


def measure_shuffle(scale: Scale) -> list[Row]:
    """Shuffle rows exactly, by blocks, and by `datasets`."""
    count = scale.pick(4_000_000, 20_000)
    run_apart(_write, scale.folder / "rows", count)
    what = f"{count:,} rows"
    exact, peak = run_apart(_shuffle, scale.folder, "exact", {})
    blocks, _ = run_apart(
        _shuffle, scale.folder, "blocks", {"exact": False, "block_rows": BLOCK_ROWS}
    )
    rival, of_rival = run_apart(_shuffle_rival, scale.folder)
    minutes = exact * FULL / count / 60
    return [
        Row(f"{what}, exact: time", format_number(exact, "s")),
        bound(f"{what}, exact: memory, at most", peak, MOST_GB, "GB"),
        Row(f"{FULL:,} rows, exact, in a row: reckoned from that", format_number(minutes, "min")),
        Row(f"{what}, by blocks of {BLOCK_ROWS}: time", format_number(blocks, "s")),
        Row(f"{what}, `datasets`: time", format_number(rival, "s")),
        Row(f"{what}, `datasets`: memory, at most", format_number(of_rival, "GB")),
    ]


def _write(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    words = pa.array(WORDS)
    chance = np.random.default_rng(5)
    for at in range(FILES):
        numbers = range(at * count // FILES, (at + 1) * count // FILES)
        drawn = chance.integers(0, len(WORDS), (5, len(numbers)))
        columns = [words.take(pa.array(each)) for each in drawn]
        texts = pc.binary_join_element_wise(*columns, " ")
        keys = pa.array([f"rows/{number:09d}" for number in numbers])
        pq.write_table(pa.table({"key": keys, "text": texts}), folder / f"{at:02}.parquet")


def _shuffle(folder: Path, name: str, how: dict[str, Any]) -> tuple[float, float]:
    """Shuffle by two pipelines; seconds, and gigabytes at most."""
    begun = time.perf_counter()
    parted = folder / name / "parted"
    sink = ShuffleSink(by="key", seed=7, partitions=PARTITIONS, path=str(parted), **how)
    _run(folder / name, "parted", ParquetRowGroups(paths=[f"{folder}/rows/*"]), ReadParquet(), sink)
    source = ShufflePartitions(paths=[f"{parted}/**/*.parquet"])
    _run(folder / name, "ordered", source, ReadShuffle(), ParquetSink())
    return time.perf_counter() - begun, _read_peak()


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
