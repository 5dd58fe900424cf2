"""Compares video stages with plain PyAV: frames per second per core."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import av
import pyarrow as pa

from strandline.plan.task import Task
from strandline_bench.ground.folders import EXAMPLES
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.video.rivals import compare_readers
from strandline_packs.video.decode_frames import DecodeFrames
from strandline_packs.video.split_video import SplitBy, SplitVideo

SIZE = (640, 360)
SPLIT_KEEPS, DECODE_KEEPS = 0.4, 0.7  # shares of PyAV's decoding rate


def measure_video(scale: Scale) -> list[Row]:
    """Decode one video with PyAV alone and with each decoding stage, in turns."""
    sys.path.append(str(EXAMPLES))
    from make_videos import RATE, Scene, Video, write_video  # noqa: PLC0415 - lies elsewhere

    laps, turns = scale.pick(12, 1), scale.pick(5, 1)
    scenes = [Scene(kind, 5 * RATE, seed) for seed in range(laps) for kind in ("shapes", "titled")]
    video = Video("bench.mp4", tuple(scenes), size=SIZE, key_every=2 * RATE)
    path, frames = write_video(video, scale.folder), 5 * RATE * len(scenes)
    clips = _split(path, SplitBy.LENGTH)
    works: dict[str, Callable[[], object]] = {
        "plain": lambda: _decode_plainly(path),
        "scenes": lambda: _split(path, SplitBy.SCENES),
        "length": lambda: _split(path, SplitBy.LENGTH),
        "frames": lambda: [_decode(table) for table in clips],
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            seconds[name].append(_time(work))
    rates = {name: frames / median(each) for name, each in seconds.items()}
    what = f"{frames:,} frames of {SIZE[0]} × {SIZE[1]}, H.264, per second of a core"
    plain = rates["plain"]
    return [
        Row(f"{what}: PyAV alone, decoded", format_number(plain, "/s")),
        Row(f"{what}: split-video by length", format_number(rates["length"], "/s")),
        Row(f"{what}: split-video by scenes", format_number(rates["scenes"], "/s")),
        Row(f"{what}: decode-frames, two a second kept", format_number(rates["frames"], "/s")),
        reach("split-video by scenes, of PyAV's rate", rates["scenes"] / plain, SPLIT_KEEPS, "×"),
        reach("decode-frames, of PyAV's rate", rates["frames"] / plain, DECODE_KEEPS, "×"),
        *compare_readers(scale, path, frames, frames / RATE),
    ]


def _decode_plainly(path: Path) -> int:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        return sum(1 for _ in container.decode(stream))


def _split(path: Path, by: SplitBy) -> list[pa.Table]:
    stage = SplitVideo(by=by)
    stage.setup()
    answer = stage.process(Task(pa.table({"key": [path.name], "path": [str(path)]})))
    return [task.table for task in answer]


def _decode(table: pa.Table) -> Task | None:
    stage = DecodeFrames()
    stage.setup()
    return stage.process(Task(table))


def _time(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, because other processes hardly influence CPU time."""
    begun = time.process_time()
    work()
    return time.process_time() - begun
