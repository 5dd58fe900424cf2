"""Runs jobs with Daft's data frames, on the native engine or, with DAFT_RUNNER, on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import daft
import numpy as np
from daft.functions import video_file, video_frames

from strandline_bench.products.functions import (
    FRAME_HEIGHT,
    FRAME_RATE,
    FRAME_WIDTH,
    LEAST_SIDE,
    is_kept,
    run_program,
)


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a function."""
    keep = daft.func(is_kept, return_dtype=daft.DataType.bool())
    frame = daft.read_json(f"{source}/*.jsonl")
    frame.where(keep(daft.col("text"))).write_parquet(str(target))


def drop_equal(source: Path, target: Path) -> None:
    """Keep one copy of each text."""
    daft.read_json(f"{source}/*.jsonl").distinct("text").write_parquet(str(target))


def measure_pictures(source: Path, target: Path) -> None:
    """Keep pictures above a minimum size, with their measures."""
    frame = daft.from_glob_path(f"{source}/*").with_column_renamed("path", "id")
    picture = daft.col("id").download().decode_image(on_error="null", mode="RGB")
    frame = frame.with_column("picture", picture).where(daft.col("picture").not_null())
    frame = frame.with_column("width", daft.col("picture").image_width())
    frame = frame.with_column("height", daft.col("picture").image_height())
    large = (daft.col("width") >= LEAST_SIDE) & (daft.col("height") >= LEAST_SIDE)
    frame.where(large).select("id", "width", "height").write_parquet(str(target))


def measure_frames(source: Path, target: Path) -> None:
    """Measure the brightness of each kept frame."""
    # In Daft 0.7.26, `read_video_frames` deadlocks on the native engine.
    frames = daft.from_glob_path(f"{source}/*.mp4").with_column(
        "frame",
        video_frames(
            video_file(daft.col("path")),
            width=FRAME_WIDTH,
            height=FRAME_HEIGHT,
            sample_interval_seconds=1 / FRAME_RATE,
        ),
    )
    light = daft.func(_measure_light, return_dtype=daft.DataType.float64())
    frame = daft.col("frame")
    measured = frames.explode("frame").select(
        "path", frame["frame_time"].alias("second"), light(frame["data"]).alias("light")
    )
    measured.write_parquet(str(target))


def _measure_light(picture: Any) -> float:  # noqa: ANN401 - an array
    return float(np.asarray(picture).mean())


if __name__ == "__main__":
    run_program(
        {
            "filter": filter_documents,
            "words": filter_documents,
            "exact": drop_equal,
            "pictures": measure_pictures,
            "videos": measure_frames,
        }
    )
