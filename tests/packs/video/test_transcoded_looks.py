"""Transcoded clips look like their source: levels, colors, and pixel shape."""

from __future__ import annotations

import io
import multiprocessing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest

from odd_videos import turn
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.video.files.clips import decode_clip

# Encodes and decodes.
pytestmark = pytest.mark.slow

RATE, SIZE = 25, (96, 64)
LIMITED, FULL = 1, 2
BT709, UNSPECIFIED, BT601, BT2020, PQ = 1, 2, 6, 9, 16
TAGS = ("color_range", "colorspace", "color_primaries", "color_trc")
# Range, matrix, primaries, and transfer of videos.
LOOKS = [
    (FULL, BT709, BT709, BT709),
    (FULL, UNSPECIFIED, UNSPECIFIED, UNSPECIFIED),
    (LIMITED, BT709, BT709, BT709),
    (LIMITED, BT601, BT601, BT601),
    (LIMITED, 5, 5, 4),  # PAL
    (LIMITED, BT2020, BT2020, PQ),
    (LIMITED, 7, 7, 7),
]


def write_video(
    path: Path,
    look: tuple[int, ...] = (0, UNSPECIFIED, UNSPECIFIED, UNSPECIFIED),
    *,
    codec: str = "libx264",
    kind: str = "yuv420p",
    shape: Fraction | None = None,
    flags: int = 0,
    options: dict[str, str] | None = None,
    begin: int = 0,
) -> Path:
    """Write a video of one brown color, with color tags."""
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as file:
        pictures: Any = file.add_stream(codec, rate=RATE)
        pictures.width, pictures.height, pictures.pix_fmt = *SIZE, kind
        context = pictures.codec_context
        context.flags |= flags
        pictures.options = options or {}
        for name, value in zip(TAGS, look, strict=True):
            setattr(context, name, value)
        if shape is not None:
            context.sample_aspect_ratio = shape
        for number in range(RATE):
            frame: Any = av.VideoFrame(*SIZE, kind)
            for plane, component in zip(frame.planes, range(4), strict=False):
                level = {0: 90, 1: 110, 2: 150, 3: 255}[component]
                wide = frame.format.components[0].bits > 8
                data = np.full(plane.buffer_size // 2, level * 4, np.uint16).tobytes()
                plane.update(data if wide else bytes([level]) * plane.buffer_size)
            frame.pts, frame.time_base = begin + number, Fraction(1, RATE)
            for name, value in zip(TAGS, look, strict=True):
                setattr(frame, name, value)
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
    return path


def transcode(path: Path, **values: Any) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """Return the clip, the transcoded clip, and the counters."""
    (clip,) = StageRun("split-video").tables([{"key": path.name, "path": str(path)}])
    run = StageRun("transcode-clip", **values)
    table = run.table(clip)
    assert table is not None
    return clip, table, run.counters


def read_look(content: bytes) -> tuple[tuple[int, ...], Fraction, Any]:
    """Return the color tags as players read them, the pixel shape, and one pixel's color."""
    with av.open(io.BytesIO(content), "r") as container:
        stream = container.streams.video[0]
        tags = tuple(getattr(stream.codec_context, name) for name in TAGS)
        frame = next(container.decode(stream))
        rgb = frame.to_ndarray(format="rgb24")[SIZE[1] // 4, SIZE[1] // 4]
        return tags, Fraction(stream.sample_aspect_ratio or 1), rgb.astype(int)


def read_content(table: pa.Table) -> bytes:
    content: bytes = table["content"][0].as_py()
    return content


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9"])
@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_range_matrix_primaries_and_transfer_stay(
    tmp_path: Path, codec: str, look: tuple[int, ...]
) -> None:
    clip, table, counts = transcode(write_video(tmp_path / "a.mp4", look), codec=codec)
    tags, _, colour = read_look(read_content(table))
    assert look == tags
    assert np.abs(colour - read_look(read_content(clip))[2]).max() <= 4
    assert {} == counts


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9"])
@pytest.mark.parametrize(
    ("encoder", "kind", "suffix"),
    [
        ("libx264rgb", "rgb24", "mkv"),
        ("ffv1", "bgr0", "mkv"),
        ("mjpeg", "yuvj420p", "avi"),
        ("ffv1", "gray", "mkv"),
        ("libx264", "yuv444p", "mp4"),
        ("libvpx-vp9", "yuv420p", "webm"),
        ("mpeg2video", "yuv420p", "mpg"),
    ],
)
def test_colours_of_other_pictures_stay(
    tmp_path: Path, codec: str, encoder: str, kind: str, suffix: str
) -> None:
    look = (FULL if kind.startswith("yuvj") else 0, *[UNSPECIFIED] * 3)
    path = write_video(tmp_path / f"a.{suffix}", look, codec=encoder, kind=kind)
    clip, table, _ = transcode(path, codec=codec)
    colour, before = read_look(read_content(table))[2], read_look(read_content(clip))[2]
    assert np.abs(colour - before).max() <= 4


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9"])
@pytest.mark.parametrize(
    ("encoder", "suffix"),
    [("libx264", "mp4"), ("mpeg4", "avi"), ("libvpx-vp9", "mp4"), ("mpeg2video", "mpg")],
)
def test_the_shape_of_pixels_stays(tmp_path: Path, codec: str, encoder: str, suffix: str) -> None:
    shape = Fraction(4, 3) if encoder != "mpeg2video" else Fraction(8, 9)
    path = write_video(tmp_path / f"a.{suffix}", codec=encoder, shape=shape)
    _, table, _ = transcode(path, codec=codec)
    assert read_look(path.read_bytes())[1] == read_look(read_content(table))[1] != 1
    _, smaller, _ = transcode(path, codec=codec, longest=64)
    assert read_look(path.read_bytes())[1] == read_look(read_content(smaller))[1]


def shrink(path: Path) -> None:
    for longest in range(24, 52, 2):
        _, table, _ = transcode(path, codec="hevc", longest=longest)
        (row,) = table.to_pylist()
        assert longest == row["width"]
        assert RATE == len(list(decode_clip(row)))


def test_narrow_images_do_not_crash_the_process(tmp_path: Path) -> None:
    """The HEVC encoder corrupts its process's memory, which rarely shows; use a child process."""
    path = write_video(tmp_path / "a.mp4")
    child = multiprocessing.get_context("fork").Process(target=shrink, args=(path,))
    child.start()
    child.join()
    assert 0 == child.exitcode


def test_a_clip_that_is_too_small_for_the_codec_is_refused_with_its_size(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    with pytest.raises(
        UnreadableFileError,
        match=r"hevc needs sides of at least 16 pixels, but .* 16 x 10",
    ):
        transcode(path, codec="hevc", longest=16)
    for codec in ("h264", "vp9"):
        (row,) = transcode(path, codec=codec, longest=16)[1].to_pylist()
        assert (16, 10) == (row["width"], row["height"])


def test_pictures_that_are_turned_keep_their_look(tmp_path: Path) -> None:
    look = (FULL, BT709, BT709, BT709)
    path = turn(write_video(tmp_path / "a.mp4", look, shape=Fraction(4, 3)), "clockwise")
    clip, table, _ = transcode(path)
    tags, shape, colour = read_look(read_content(table))
    assert (look, Fraction(3, 4)) == (tags, shape)
    assert np.abs(colour - read_look(read_content(clip))[2]).max() <= 4
    (row,) = table.to_pylist()
    assert (64, 96) == (row["width"], row["height"])
    path = turn(write_video(tmp_path / "b.mp4", look, shape=Fraction(4, 3)), "half")
    assert Fraction(4, 3) == read_look(read_content(transcode(path)[1]))[1]


def test_metadata_that_files_cannot_hold_is_counted(tmp_path: Path) -> None:
    deep = write_video(tmp_path / "deep.mp4", (1, BT2020, BT2020, PQ), kind="yuv420p10le")
    assert {"reduced: more than 8 bits a colour": 1} == transcode(deep)[2]
    display = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
    bright = write_video(
        tmp_path / "bright.mp4",
        (1, BT2020, BT2020, PQ),
        codec="libx265",
        options={"x265-params": f"log-level=none:master-display={display}:max-cll=1000,400"},
    )
    assert {"left out: brightness of HDR pictures": 1} == transcode(bright)[2]
    clear = write_video(tmp_path / "clear.mkv", codec="ffv1", kind="yuva420p")
    assert {"left out: transparency": 1} == transcode(clear)[2]
    woven = write_video(tmp_path / "woven.mp4", flags=1 << 18 | 1 << 29)
    (clip,) = StageRun("split-video").tables([{"key": "a", "path": str(woven)}])
    assert next(decode_clip(clip.to_pylist()[0])).frame.interlaced_frame
    assert {"left out: order of interlaced fields": 1} == transcode(woven)[2]


def test_frames_whose_colours_change_within_a_clip_are_counted(tmp_path: Path) -> None:
    parts = [
        write_video(
            tmp_path / f"{at}.ts", look, begin=at * RATE, options={"tune": "zerolatency"}
        ).read_bytes()
        for at, look in enumerate([(LIMITED, BT709, BT709, BT709), (FULL, BT709, BT709, BT709)])
    ]
    path = tmp_path / "a.ts"
    path.write_bytes(b"".join(parts))
    (clip,) = StageRun("split-video", threshold=1).tables([{"key": "a", "path": str(path)}])
    run = StageRun("transcode-clip")
    run.table(clip)
    assert {"frames of other colours than their clip's first": RATE} == run.counters
