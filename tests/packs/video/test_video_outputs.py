"""Clips as files: transcoded, and written as shards with their metadata beside them."""

from __future__ import annotations

import io
import json
import tarfile
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from make_videos import RATE, SCENES, draw_scene

from stage_runs import ForwardFile, StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.task import Task
from strandline_packs.sinks.webdataset_sink import WebdatasetSink
from strandline_packs.video.files.clips import decode_clip
from strandline_packs.video.files.containers import load_av, open_content

# Encodes, decodes, or runs models.
pytestmark = pytest.mark.slow


def list_clips(path: Path, **values: Any) -> pa.Table:
    (table,) = StageRun("split-video", **values).tables([{"key": path.name, "path": str(path)}])
    return table


def transcode(clips: pa.Table, **values: Any) -> pa.Table:
    table = StageRun("transcode-clip", **values).table(clips)
    assert table is not None
    return table


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9"])
def test_a_clip_is_exactly_its_frames_and_the_same_bytes_again(videos: Path, codec: str) -> None:
    clips = list_clips(videos / "silent.mp4").slice(0, 3)
    table = transcode(clips, codec=codec)
    # Change the memory in between, because an encoder may read memory that is not its own.
    for size in range(4 if codec == "h264" else 1):
        assert np.full(300_000 + 70_001 * size, 7 * size, np.uint8).any() or size == 0
        assert table.equals(transcode(clips, codec=codec))
    for row, scene in zip(table.to_pylist(), SCENES, strict=False):
        assert row["content"][4:8] == b"ftyp"
        frames = list(decode_clip(row))
        assert scene.frames == row["frame_count"] == len(frames)
        assert [each.time for each in frames] == pytest.approx(
            [at / RATE for at in range(scene.frames)], abs=0.001
        )
        for (_, frame), drawn in zip(frames, draw_scene(scene), strict=True):
            assert np.abs(frame.to_ndarray(format="rgb24").astype(int) - drawn).mean() < 12
        with open_content(row["content"], "x") as container:
            assert (codec, 0) == (
                container.streams.video[0].codec_context.codec.canonical_name,
                container.streams.video[0].start_time,
            )


def test_frames_keep_their_times_or_get_a_steady_rate(videos: Path) -> None:
    clips = list_clips(videos / "uneven.mkv")
    before = [[each.time for each in decode_clip(row)] for row in clips.to_pylist()]
    kept = [[each.time for each in decode_clip(row)] for row in transcode(clips).to_pylist()]
    assert kept == [pytest.approx(times, abs=0.0011) for times in before]
    for rate in (10, Fraction(30000, 1001)):
        for row in transcode(clips, rate=rate).to_pylist():
            times = [each.time for each in decode_clip(row)]
            assert times == pytest.approx([at / rate for at in range(len(times))], abs=0.001)
            assert len(times) == pytest.approx((row["end"] - row["start"]) * rate, abs=1)
            assert row["rate"] == pytest.approx(float(rate))


@pytest.mark.parametrize("rate", [24, 25, 30, Fraction(30000, 1001), 50, 60, 120])
@pytest.mark.parametrize("start", [0.0, 0.0334, 7.9999])
def test_the_rate_of_the_clip_itself_shows_each_frame_once(
    rate: Fraction | int, start: float
) -> None:
    stage = StageRun("transcode-clip", rate=rate).stage
    frames = [(round(start + at / rate, 3) - start, at) for at in range(500)]
    clip = {"start": start, "end": round(start + 500 / rate, 3)}
    assert [*stage._pace(frames, clip)] == [(at, at) for at in range(500)]


def test_a_frame_is_shown_until_the_next_frame(videos: Path) -> None:
    clips = list_clips(videos / "silent.mp4").slice(0, 1)
    (row,) = transcode(clips, rate=50).to_pylist()
    frames = [each.frame.to_ndarray(format="gray").astype(int) for each in decode_clip(row)]
    assert 100 == len(frames)
    for at in range(0, 98, 2):
        assert (
            np.abs(frames[at] - frames[at + 1]).mean()
            < np.abs(frames[at + 1] - frames[at + 2]).mean()
        )


def test_sizes_are_even_and_in_proportion(videos: Path) -> None:
    clips = list_clips(videos / "silent.mp4").slice(0, 1)
    for longest, size in ((100, (100, 76)), (1000, (160, 120))):
        (row,) = transcode(clips, longest=longest).to_pylist()
        assert size == (row["width"], row["height"])
        assert size == (next(decode_clip(row)).frame.width, next(decode_clip(row)).frame.height)


def test_sound_is_kept_or_dropped_without_a_shift(videos: Path) -> None:
    clips = list_clips(videos / "audible.mp4")
    for row in transcode(clips).to_pylist():
        with open_content(row["content"], "x") as container:
            sound = container.streams.audio[0]
            frames = [frame for packet in container.demux(sound) for frame in packet.decode()]
        wave = np.concatenate([frame.to_ndarray()[0] for frame in frames])
        assert len(wave) / 48_000 == pytest.approx(row["end"] - row["start"], abs=0.1)
        middle = wave[20_000:68_000]
        assert 440 == pytest.approx(np.abs(np.fft.rfft(middle)).argmax(), abs=2)
        assert row["has_audio"]
    assert not any(row["has_audio"] for row in transcode(clips, keepAudio=False).to_pylist())
    (silent, *_) = transcode(list_clips(videos / "silent.mp4")).to_pylist()
    assert not silent["has_audio"]


def test_a_clip_that_can_not_be_decoded_fails(videos: Path) -> None:
    (row, *_) = list_clips(videos / "silent.mp4").to_pylist()
    with pytest.raises(UnreadableFileError, match=r"silent.mp4#00000: not a readable video"):
        transcode(pa.Table.from_pylist([row | {"content": b"nothing"}]))
    with pytest.raises(UnreadableFileError, match=r"silent.mp4#00000: none of its frames"):
        transcode(pa.Table.from_pylist([row | {"lead": 1000.0}]))


def write(table: pa.Table) -> tuple[bytes, pa.Table]:
    """Return the shard and the table beside the shard."""
    stage = StageRun("webdataset")
    assert isinstance(stage.stage, WebdatasetSink)
    ((suffix, write_beside),) = stage.stage.list_companions().items()
    assert ".parquet" == suffix
    file = ForwardFile()
    write_beside(Task(table), file)  # type: ignore[arg-type]
    return stage.written(table), pq.read_table(io.BytesIO(bytes(file.content)))


def read_shard(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        members = webdataset.tariterators.tar_file_iterator(file)
        named = ({"__url__": "a.tar", **member} for member in members)
        return list(webdataset.tariterators.group_by_keys(named))


def test_shards_open_with_webdataset_and_agree_with_the_table_beside(
    videos: Path, tmp_path: Path
) -> None:
    frames = StageRun("decode-frames").table(list_clips(videos / "audible.mp4"))
    assert frames is not None
    clips = transcode(frames)
    shard, facts = write(clips)
    assert (shard, facts) == write(clips)
    path = tmp_path / "a.tar"
    path.write_bytes(shard)
    samples = read_shard(path)
    rows = facts.to_pylist()
    assert len(samples) == len(rows) == 2
    for sample, row, clip in zip(samples, rows, clips.to_pylist(), strict=True):
        assert row["sample"] == sample["__key__"]
        assert clip["content"] == sample["mp4"]
        assert (len(clip["content"]), sha256(clip["content"]).hexdigest()) == (
            row["bytes"],
            row["sha256"],
        )
        assert json.loads(sample["json"]) == row
        assert (clip["start"], clip["end"]) == (row["start"], row["end"])
        assert not {"content", "frames"} & row.keys()
        with load_av().open(io.BytesIO(sample["mp4"])) as container:
            assert container.streams.video[0].frames == clip["frame_count"]


def test_samples_have_unique_names_without_dots(tmp_path: Path) -> None:
    keys = ["a/b.c.mp4#00001", "x/b.c.mp4#00001", "é" * 300, "", "a b"]
    contents = [b"\xff\xd8\xff", b"\x89PNG", b"\x1aE\xdf\xa3", b"?", None]
    shard, _ = write(pa.table({"clip": keys, "content": pa.array(contents, pa.binary())}))
    with tarfile.open(fileobj=io.BytesIO(shard)) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert len(set(names)) == 10
    assert names[0].startswith("b_c_mp4_00001-")
    assert ["jpg", "json", "png", "json", "mkv", "json", "bin", "json", "bin", "json"] == [
        name.partition(".")[2] for name in names
    ]
    assert all(len(name) < 100 and name.isascii() for name in names)
    assert {(0, 0, "")} == {(each.mtime, each.uid, each.uname) for each in members}
