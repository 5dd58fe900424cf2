"""Stages for videos."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "decode-frames": "strandline_packs.video.decode_frames:DecodeFrames",
        "filter-video": "strandline_packs.video.filter_video:FilterVideo",
        "hash-video": "strandline_packs.video.hash_video:HashVideo",
        "measure-motion": "strandline_packs.video.measure_motion:MeasureMotion",
        "measure-video": "strandline_packs.video.measure_video:MeasureVideo",
        "split-video": "strandline_packs.video.split_video:SplitVideo",
        "transcode-clip": "strandline_packs.video.transcode_clip:TranscodeClip",
    },
    packages=(
        Dependency(module="av", name="av", install="strandline[video]"),
        Dependency(module="numpy", name="numpy", install="strandline[video]"),
    ),
    page="docs/video.md",
)
