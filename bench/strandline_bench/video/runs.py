"""Measures whole video runs: use of all workers by one long video, and memory for 4K."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.ground.folders import EXAMPLES, join_python_path
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.video.stages import (
    NOTES,
    LookAtClips,
    WatchedDecode,
    WatchedSplit,
    WatchedTranscode,
)
from strandline_packs.sinks.webdataset_sink import WebdatasetSink
from strandline_packs.sources.files import Files
from strandline_packs.video.split_video import SplitBy, SplitVideo

_CPUS = 8  # logical CPUs: a sleeping worker needs no core
_CLIP_SECONDS = 2
_MOST = 1.15  # maximum time, as a multiple of the optimum
_GROUP = 4
_LARGE = (3840, 2160)
_WORKERS = 2
_STORE_BYTES = 100_000_000
_MOST_MB = 600
_LONGER, _MOST_LONGER = 4, 1.2


def measure_video_runs(scale: Scale) -> list[Row]:
    """Run one long video beside short videos, and then large videos."""
    return [*_measure_rechunking(scale), *_measure_large(scale)]


def _measure_rechunking(scale: Scale) -> list[Row]:
    clips, short = scale.pick(400, 8), scale.pick(60, 4)
    folder = scale.folder / "clips"
    folder.mkdir()
    _write_videos(folder, clips, short)
    rows = []
    # A stage with groups has its own workers. These have one CPU less, which the cutting stage
    # occupies.
    for group, cpus, seconds in (
        (None, _CPUS, scale.pick(200, 10) / 1000),
        (_GROUP, _CPUS - 1, scale.pick(1000, 10) / 1000),
    ):
        how = f"in groups of {group}" if group else "clip by clip"
        what = f"a video of {clips} clips beside {short} of one, {seconds:g} s a clip, {how}"
        optimum = (clips + short) * seconds / cpus
        took = run_apart(_run_rechunking, folder, clips + short, seconds, group)
        rows.append(Row(f"{what}: at best, by {cpus} workers", format_number(optimum, "s")))
        rows.append(bound(f"{what}: as a multiple of that", took / optimum, _MOST, "×"))
    return rows


def _write_videos(folder: Path, clips: int, short: int) -> None:
    sys.path.append(str(EXAMPLES))
    from make_videos import RATE, Scene, Video, write_video  # noqa: PLC0415 - lies elsewhere

    frames = _CLIP_SECONDS * RATE
    name, videos = "a-clip.mp4", folder / "videos"
    videos.mkdir()
    clip = write_video(Video(name, (Scene("shapes", frames, 1),), key_every=frames), folder)
    for number in range(short):
        repeat_video(clip, videos / f"short-{number:03}.mp4", 1)
    repeat_video(clip, videos / "long.mp4", clips)


def repeat_video(path: Path, out: Path, times: int) -> None:
    """Write a video that repeats the packets of another video without encoding them again."""
    with av.open(str(path)) as first, av.open(str(out), "w") as target:
        source = first.streams.video[0]
        stream = target.add_stream_from_template(source)
        packets = [packet for packet in first.demux(source) if packet.size]
        length = sum(packet.duration or 0 for packet in packets)
        for lap in range(times):
            for packet in packets:
                copy: Any = av.Packet(bytes(packet))
                copy.stream, copy.time_base = stream, packet.time_base
                ahead = lap * length
                copy.pts, copy.dts = (packet.pts or 0) + ahead, (packet.dts or 0) + ahead
                copy.duration, copy.is_keyframe = packet.duration, packet.is_keyframe
                target.mux(copy)


def _run_rechunking(folder: Path, clips: int, seconds: float, group: int | None) -> float:
    """Return the seconds from the start of the first clip's work to the end of the last."""
    notes = folder / f"notes-{group}"
    notes.mkdir()
    split = SplitVideo(by=SplitBy.LENGTH, max_seconds=_CLIP_SECONDS, clips_per_task=1)
    look = LookAtClips(seconds=seconds, folder=str(notes))
    stages = [
        StagePlan("split", "split-video", split),
        StagePlan("look", "look", look, group=group),
    ]
    # Run as a user does: on a separate Ray, with the sink in the workers of the other stages.
    os.environ["PYTHONPATH"] = join_python_path()
    config = AttemptConfig(
        _plan(folder / "videos", stages), folder / f"{group or 0}", workers=_CPUS
    )
    _attempt(config)
    moments = _read_notes(notes)
    if sum(count for _, _, count in moments) != clips:
        msg = f"{len(moments)} clips were looked at, not {clips}"
        raise RuntimeError(msg)
    return max(end for _, end, _ in moments) - min(begun for begun, _, _ in moments)


def _read_notes(folder: Path) -> list[tuple[float, float, int]]:
    lines = [line.split() for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [(float(begun), float(end), int(count)) for begun, end, count in lines]


def _run(folder: Path, videos: Path, stages: Sequence[StagePlan], cpus: int, store: int) -> None:
    with started_ray(folder / "ray", cpus, store, has_spilling=False):
        _attempt(AttemptConfig(_plan(videos, stages), folder / "volume"))


def _plan(videos: Path, stages: Sequence[StagePlan]) -> PipelinePlan:
    sink = StagePlan("sink", "webdataset", WebdatasetSink())
    source = StagePlan("files", "files", Files(paths=(f"{videos}/*",)))
    return check_plan("bench", "video", source, [*stages, sink])


def _attempt(config: AttemptConfig) -> None:
    outcome = run_attempt(config)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)


def _measure_large(scale: Scale) -> list[Row]:
    size = (scale.pick(_LARGE[0], 640), scale.pick(_LARGE[1], 360))
    laps = scale.pick(5, 1)
    folder = scale.folder / "large"
    folder.mkdir()
    _write_large(folder, size, laps)
    seconds = 2 * _CLIP_SECONDS * laps
    what = f"two videos of {size[0]} × {size[1]}, {{}} s each, split, decoded and encoded again"
    rows, chained = [], {}
    for length, times in (("short", 1), ("long", _LONGER)):
        chained[length] = run_apart(_run_large, folder, length, False) / 1e6  # noqa: FBT003
        row = f"{what.format(seconds * times)}, chained: memory of a worker"
        rows.append(bound(row, chained[length], _MOST_MB, "MB"))
    ratio = chained["long"] / chained["short"]
    rows.append(bound(f"the same, {_LONGER} × as long, as a multiple", ratio, _MOST_LONGER, "×"))
    apart = run_apart(_run_large, folder, "long", True) / 1e6  # noqa: FBT003 - of a process
    row = f"{what.format(seconds * _LONGER)}, each stage apart, in an object store of"
    store = f"{_STORE_BYTES / 1e6:g} MB without spilling: memory of a worker"
    return [*rows, bound(f"{row} {store}", apart, _MOST_MB, "MB")]


def _write_large(folder: Path, size: tuple[int, int], laps: int) -> None:
    sys.path.append(str(EXAMPLES))
    from make_videos import RATE, Scene, Video, write_video  # noqa: PLC0415 - lies elsewhere

    frames = _CLIP_SECONDS * RATE
    scenes = (Scene("shapes", frames, 1), Scene("titled", frames, 2))
    once = write_video(Video("once.mp4", scenes, size=size, key_every=frames), folder)
    for length, times in (("short", laps), ("long", laps * _LONGER)):
        (folder / length).mkdir()
        for number in range(_WORKERS):
            repeat_video(once, folder / length / f"{number}.mp4", times)


def _run_large(folder: Path, length: str, is_apart: bool) -> int:  # noqa: FBT001 - of a process
    """Return the highest peak memory of all workers in bytes."""
    notes = folder / f"notes-{length}-{is_apart:d}"
    notes.mkdir()
    os.environ[NOTES] = str(notes)  # inherited by workers
    stages = [
        StagePlan("split", "split", WatchedSplit(by=SplitBy.LENGTH, max_seconds=_CLIP_SECONDS)),
        StagePlan("decode", "decode", WatchedDecode()),
        StagePlan("encode", "encode", WatchedTranscode(longest=640)),
    ]
    stages = [replace(stage, isolate=is_apart) for stage in stages]
    own = folder / f"{length[0]}{is_apart:d}"  # short, because Ray limits socket paths
    _run(own, folder / length, stages, _WORKERS * (4 if is_apart else 1), _STORE_BYTES)
    lines = (path.read_text().rpartition("\n")[0] for path in notes.iterdir())
    return max(int(line) for text in lines for line in text.splitlines())
