"""Compares Strandline's engine with Ray Data's video reader, on the same local Ray instance.

Both decode every frame of whole videos and keep two scaled frames per second. Strandline uses one
thread per worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import util
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO

import ray
from ray.data import DataContext

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import SinkStage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, format_number, reach
from strandline_packs.sources.files import Files
from strandline_packs.video.decode_frames import DecodeFrames
from strandline_packs.video.split_video import SplitBy, SplitVideo

Read = Callable[[Path, Path, tuple[int, int]], tuple[float, int]]

_KEPT, _LONGEST = 2, 256  # kept frames per second; longest side in pixels
_CPUS = 2
_STORE_BYTES = 1_000_000_000
_SLACK = 0.1  # tolerated difference, because the readers sample at different times


class CountFrames(SinkStage):
    """Writes the number of a task's frames."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(b"%d" % sum(map(len, task.table.column("frames").to_pylist())))


def compare_readers(scale: Scale, video: Path, frames: int, seconds: float) -> list[Row]:
    """Read copies of a video with both readers, in turns.

    Args:
        video: video to copy; the copies are links.
        frames, seconds: number of frames and length of the video.
    """
    copies = scale.pick(40, 1)
    folder = scale.folder / "readers"
    videos = folder / "videos"
    videos.mkdir(parents=True)
    for number in range(copies):
        (videos / f"{number}{video.suffix}").symlink_to(video)
    readers: dict[str, Read] = {"strandline": _read_ours}
    if util.find_spec("decord"):
        readers["Ray Data"] = _read_ray_data
    took: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(scale.pick(3, 1)):
        for name, read in readers.items():
            least, most = ((1 + sign * _SLACK) * copies * seconds * _KEPT for sign in (-1, 1))
            own = folder / f"{name[0]}{turn}"  # short, because Ray limits socket paths
            spent, kept = run_apart(read, own, videos, _size(video))
            if not least <= kept <= most:
                msg = f"{name} kept {kept} frames, not about {copies * seconds * _KEPT:g}"
                raise RuntimeError(msg)
            took[name].append(spent)
    rates = {name: copies * frames / median(each) / _CPUS for name, each in took.items()}
    what = f"{copies} such videos read by a run on {_CPUS} CPUs, per second of each"
    rows = [Row(f"{what}: {name}", format_number(rate, "/s")) for name, rate in rates.items()]
    if "Ray Data" in rates:
        ratio = rates["strandline"] / rates["Ray Data"]
        rows.append(reach("a run over such videos, of Ray Data's rate", ratio, 1, "×"))
    return rows


def _size(video: Path) -> tuple[int, int]:
    """Return the height and width of kept frames."""
    import av  # noqa: PLC0415 - nothing else here needs it

    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        scale = _LONGEST / max(stream.width, stream.height)
        return round(stream.height * scale), round(stream.width * scale)


def _read_ours(folder: Path, videos: Path, _: tuple[int, int]) -> tuple[float, int]:
    """Return the seconds of the run, without the start of Ray, and the number of kept frames."""
    stages = [
        StagePlan("split", "split-video", SplitVideo(by=SplitBy.LENGTH)),
        StagePlan("frames", "decode-frames", DecodeFrames(rate=_KEPT, longest=_LONGEST)),
        StagePlan("count", "count", CountFrames()),
    ]
    source = StagePlan("files", "files", Files(paths=(f"{videos}/*",)))
    plan = check_plan("bench", "video", source, stages)
    with started_ray(folder, _CPUS, _STORE_BYTES):
        begun = time.perf_counter()
        outcome = run_attempt(AttemptConfig(plan, folder / "volume", "ray"))
        spent = time.perf_counter() - begun
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    outputs = (folder / "volume").rglob(f"output/*/*/*{CountFrames.suffix}")
    return spent, sum(int(path.read_text()) for path in outputs)


def _read_ray_data(folder: Path, videos: Path, size: tuple[int, int]) -> tuple[float, int]:
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with started_ray(folder, _CPUS, _STORE_BYTES):
        DataContext.get_current().enable_progress_bars = False
        begun, kept = time.perf_counter(), 0
        rows: Any = ray.data.read_videos(
            [str(path) for path in sorted(videos.iterdir())],
            fps=_KEPT,
            resize=size,
        )
        for batch in rows.map_batches(_count_rows).iter_batches(batch_size=None):
            kept += int(sum(batch["frames"]))
        return time.perf_counter() - begun, kept


def _count_rows(batch: dict[str, Any]) -> dict[str, Any]:
    return {"frames": [len(batch["frame"])]}
