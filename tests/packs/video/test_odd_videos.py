"""Videos of phones, cameras, and editors: clips show and sound as in a player."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odd_videos import (
    FRAMES,
    RATE,
    SIZE,
    SOUND,
    TURNS,
    edit,
    is_upright,
    read_number,
    turn,
    write_album,
    write_odd_video,
)
from stage_runs import Rows, StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.video.files.clips import decode_clip

# Encodes and decodes.
pytestmark = pytest.mark.slow

ALL = list(range(FRAMES))
CUT = {"by": "length", "maxSeconds": 0.8, "minSeconds": 0}
# Codecs of cameras, voice recorders, old programs, and telephones, by container name.
SOUNDS = [
    ("mov", "pcm_s16le"),
    ("mov", "pcm_s16be"),
    ("mov", "pcm_s24be"),
    ("mov", "pcm_s32le"),
    ("mov", "pcm_f32be"),
    ("mov", "pcm_f64le"),
    ("mov", "pcm_s8"),
    ("mov", "pcm_mulaw"),
    ("mov", "pcm_alaw"),
    ("mov", "adpcm_ima_qt"),
    ("mov", "alac"),
    ("avi", "pcm_u8"),
    ("avi", "pcm_s16le"),
    ("avi", "adpcm_ms"),
    ("avi", "adpcm_ima_wav"),
    ("mkv", "pcm_s24le"),
    ("mkv", "flac"),
    ("mp4", "ac3"),
    ("mp4", "libmp3lame"),
    ("ts", "mp2"),
    ("vob", "pcm_dvd"),
]


def split(path: Path, **values: Any) -> Rows:
    stage = StageRun("split-video", clipsPerTask=1000, **CUT | values)
    tables = stage.tables([{"key": path.name, "path": str(path)}])
    return [row for table in tables for row in table.to_pylist()]


def run(name: str, rows: Rows, **values: Any) -> Rows:
    return [row for table in StageRun(name, **values).tables(rows) for row in table.to_pylist()]


def show(rows: Rows) -> list[Any]:
    """Return the frames of clips as arrays."""
    return [each.frame.to_ndarray(format="rgb24") for row in rows for each in decode_clip(row)]


def play(path: Path | io.BytesIO) -> list[Any]:
    """Return the frames that a player shows."""
    opened: Any = av.open(str(path) if isinstance(path, Path) else path)
    with opened as file:
        return [each.to_ndarray(format="rgb24") for each in file.decode(file.streams.video[0])]


def hear(content: bytes) -> Any:
    """Return samples from -1 to 1."""
    opened: Any = av.open(io.BytesIO(content))
    with opened as file:
        plain = av.AudioResampler(format="flt", layout="mono", rate=SOUND)
        chunks = [each for frame in file.decode(audio=0) for each in plain.resample(frame)]
    return np.concatenate([each.to_ndarray()[0] for each in chunks])


@pytest.mark.parametrize("by", ["length", "scenes", "key-frames"])
@pytest.mark.parametrize("how", TURNS)
def test_rotated_videos_become_upright(tmp_path: Path, how: str, by: str) -> None:
    path = turn(write_odd_video(tmp_path / "phone.mp4", lies=how), how)
    rows = split(path, by=by)
    assert {SIZE} == {(row["width"], row["height"]) for row in rows}
    frames = show(rows)
    assert all(map(is_upright, frames))
    assert ALL == [read_number(each) for each in frames]


@pytest.mark.parametrize("how", TURNS)
def test_derived_images_are_upright_too(tmp_path: Path, how: str) -> None:
    lying = split(turn(write_odd_video(tmp_path / "phone.mp4", lies=how), how))
    upright = split(write_odd_video(tmp_path / "camera.mp4"))
    sampled = [run("decode-frames", rows, rate=5, longest=48) for rows in (lying, upright)]
    for row, other in zip(*sampled, strict=True):
        sizes = [
            [(each["width"], each["height"]) for each in one["frames"]] for one in (row, other)
        ]
        assert sizes[0] == sizes[1] == [(48, 32)] * len(sizes[0])
    assert [row["hash"] for row in run("hash-video", sampled[0])] == [
        row["hash"] for row in run("hash-video", sampled[1])
    ]
    encoded = run("transcode-clip", lying)
    assert {SIZE} == {(row["width"], row["height"]) for row in encoded}
    frames = [each for row in encoded for each in play(io.BytesIO(row["content"]))]
    assert all(map(is_upright, frames))
    assert ALL == [read_number(each) for each in frames]


@pytest.mark.parametrize(("container", "codec"), SOUNDS)
def test_sound_of_every_codec_is_kept(tmp_path: Path, container: str, codec: str) -> None:
    path = tmp_path / f"camera.{container}"
    pictures = "mpeg2video" if container == "vob" else "libx264"
    rows = split(write_odd_video(path, sound=codec, codec=pictures))
    assert all(row["has_audio"] for row in rows)
    for heard in (rows, run("transcode-clip", rows)):
        samples = np.concatenate([hear(row["content"]) for row in heard])
        assert len(samples) / SOUND == pytest.approx(FRAMES / RATE, abs=0.12)
        assert np.sqrt((samples**2).mean()) == pytest.approx(8000 / 2**15 / 2**0.5, rel=0.12)


@pytest.mark.parametrize("codec", ["pcm_f32be", "pcm_s16be", "pcm_mulaw", "pcm_s8", "pcm_f64le"])
def test_law_unsupported_sound_is_converted_without_losing_samples(
    tmp_path: Path, codec: str
) -> None:
    path = write_odd_video(tmp_path / "camera.mov", sound=codec)
    (row,) = split(path, maxSeconds=10)
    assert hear(path.read_bytes()).tolist() == hear(row["content"]).tolist()


@pytest.mark.parametrize(
    ("name", "pictures", "sound"),
    [
        ("a.mkv", "libx264", "aac"),
        ("a.webm", "libvpx-vp9", "libopus"),
        ("a.mp4", "libx264", "aac"),
        ("a.avi", "libx264", "pcm_s16le"),
        ("a.ts", "libx264", "aac"),
    ],
)
@pytest.mark.parametrize("keeps", [True, False])
def test_sound_may_outlast_the_pictures(
    tmp_path: Path, name: str, pictures: str, sound: str, keeps: bool
) -> None:
    path = write_odd_video(tmp_path / name, codec=pictures, sound=sound, sound_frames=3 * FRAMES)
    rows = split(path, keepAudio=keeps)
    assert [20, 20, 10] == [row["frame_count"] for row in rows]
    assert {keeps} == {row["has_audio"] for row in rows}


@pytest.mark.parametrize(("name", "sound"), [("a.mkv", "aac"), ("a.mkv", ""), ("a.avi", "")])
@pytest.mark.parametrize("kept", [0.3, 0.6])
def test_a_partially_copied_video_is_still_detected(
    tmp_path: Path, name: str, sound: str, kept: float
) -> None:
    path = write_odd_video(tmp_path / name, frames=4 * FRAMES, sound=sound)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(UnreadableFileError, match="the file may be incomplete"):
        split(path)


EDITS = {
    "the beginning is left out": [(1.2, 0.4)],
    "the beginning is left out after a pause": [(0.5, -1.0), (1.2, 0.4)],
    "from between key frames": [(0.6, 0.68)],
    "the end is left out": [(0.8, 0.08)],
    "two pieces are joined": [(0.4, 0.08), (0.8, 1.2)],
    "three pieces are joined": [(0.2, 0.08), (0.2, 0.8), (0.4, 1.6)],
}


@pytest.mark.parametrize("case", EDITS)
@pytest.mark.parametrize("by", ["length", "scenes"])
def test_law_frames_outside_the_edit_list_are_not_shown(tmp_path: Path, case: str, by: str) -> None:
    path = edit(write_odd_video(tmp_path / "edited.mp4"), *EDITS[case])
    expected = [read_number(each) for each in play(path)]
    assert 0 < len(expected) < FRAMES
    rows = split(path, by=by, maxSeconds=0.48)
    assert expected == [read_number(each) for each in show(rows)]
    assert len(expected) == sum(row["frame_count"] for row in rows)
    assert 0.0 == rows[0]["start"]
    encoded = [play(io.BytesIO(row["content"])) for row in run("transcode-clip", rows)]
    assert expected == [read_number(each) for frames in encoded for each in frames]


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.mkv"])
def test_a_cover_image_is_not_a_video(tmp_path: Path, name: str) -> None:
    rows = split(write_odd_video(tmp_path / name, cover=True))
    assert ALL == [read_number(each) for each in show(rows)]
    assert {"h264"} == {row["codec"] for row in rows}


def test_a_music_file_with_a_cover_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=r"not a video: it has only a cover picture"):
        split(write_album(tmp_path / "song.mp4"))


@pytest.mark.parametrize("sound", [True, False])
@pytest.mark.parametrize("container", ["ts", "mkv", "mp4", "mov", "avi"])
def test_times_count_from_the_first_frame(tmp_path: Path, container: str, sound: bool) -> None:
    codec = ("pcm_s16le" if container == "avi" else "aac") if sound else ""
    path = write_odd_video(tmp_path / f"late.{container}", begin=Fraction(10), sound=codec)
    rows = split(path)
    assert [0.0, 0.8, 1.6] == pytest.approx([row["start"] for row in rows], abs=1e-3)
    assert ALL == [read_number(each) for each in show(rows)]


@pytest.mark.parametrize("by", ["length", "scenes"])
def test_frames_of_avi_are_in_display_order(tmp_path: Path, by: str) -> None:
    """AVI reveals the display order only during decoding."""
    path = write_odd_video(tmp_path / "old.avi")
    rows = split(path, by=by)
    assert ALL == [read_number(each) for each in show(rows)]
    encoded = [play(io.BytesIO(row["content"])) for row in run("transcode-clip", rows)]
    assert ALL == [read_number(each) for frames in encoded for each in frames]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "a.mp4"
    return write_odd_video(path, frames=2 * FRAMES).read_bytes()


def hurt(whole: bytes, path: Path, places: list[int]) -> Path:
    """Damage bytes of the video's images at these places; the header stays intact."""
    begin, end = whole.index(b"mdat") + 4, whole.index(b"moov") - 4
    changed = bytearray(whole)
    for at in places:
        changed[begin + at % (end - begin)] ^= 0xFF
    path.write_bytes(changed)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(places=st.lists(st.integers(0, 2**20), max_size=40))
def test_law_each_frame_of_a_damaged_video_is_output_or_counted(
    whole: bytes, tmp_path: Path, places: list[int]
) -> None:
    rows = split(hurt(whole, tmp_path / "a.mp4", places))
    assert 2 * FRAMES == sum(row["frame_count"] for row in rows)
    stage = StageRun("transcode-clip")
    try:
        clips = [row for table in stage.tables(rows) for row in table.to_pylist()]
    except UnreadableFileError as error:
        assert "none of its frames can be decoded" in str(error)  # noqa: PT017 - one of two ends
        return
    lacking = stage.counters.get("frames that can't be decoded", 0)
    assert 2 * FRAMES == sum(row["frame_count"] for row in clips) + lacking


def test_frames_lost_to_sampling_stages_are_counted(whole: bytes, tmp_path: Path) -> None:
    rows = split(hurt(whole, tmp_path / "a.mp4", list(range(700, 4000, 3))))
    stage = StageRun("decode-frames", badVideos="drop")
    stage.tables(rows)
    assert stage.counters


def test_omitted_streams_are_counted(tmp_path: Path) -> None:
    write_odd_video(tmp_path / "a.mp4", cover=True)
    path = write_odd_video(tmp_path / "one.mkv", sound="aac")
    two = tmp_path / "two.mkv"
    with av.open(str(path)) as source, av.open(str(two), "w") as file:
        (sound,) = source.streams.audio
        (pictures,) = source.streams.video
        copies: list[Any] = [file.add_stream_from_template(pictures)]
        copies += [file.add_stream_from_template(sound) for _ in range(2)]
        for packet in source.demux(pictures, sound):
            for copy in copies[:1] if packet.stream is not sound else copies[1:]:
                if packet.dts is not None:
                    packet.stream = copy
                    file.mux(packet)
    for name, counts in (
        ("a.mp4", {"left out: a stream of video": 1}),
        ("two.mkv", {"left out: a stream of audio": 1}),
    ):
        run = StageRun("split-video")
        assert run.tables([{"key": name, "path": str(tmp_path / name)}])
        assert counts == run.counters
    run = StageRun("split-video", keepAudio=False)
    run.tables([{"key": "two.mkv", "path": str(two)}])
    assert {} == run.counters
