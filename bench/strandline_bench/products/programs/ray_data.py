"""Runs jobs with Ray Data: a data set, filtered and written by its own operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from strandline_bench.products.functions import (
    CORES,
    FRAME_HEIGHT,
    FRAME_RATE,
    FRAME_WIDTH,
    is_kept,
    run_program,
)


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a function."""
    _start()
    kept = ray.data.read_json(str(source), lines=True).filter(lambda row: is_kept(row["text"]))
    kept.write_parquet(str(target))


def measure_frames(source: Path, target: Path) -> None:
    """Measure the brightness of each kept frame."""
    _start()
    size = (FRAME_HEIGHT, FRAME_WIDTH)
    frames = ray.data.read_videos(str(source), fps=FRAME_RATE, resize=size, include_paths=True)
    frames.map(_measure).write_parquet(str(target))


def _measure(row: dict[str, Any]) -> dict[str, Any]:
    light = float(row["frame"].mean())
    return {"path": row["path"], "frame_index": row["frame_index"], "light": light}


def _start() -> None:
    ray.init("local", num_cpus=CORES, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents, "videos": measure_frames})
