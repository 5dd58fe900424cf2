"""Frames of clips: sampled, measured against the drawn frames, filtered, and hashed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_videos import HEIGHT, RATE, SCENES, SIDE, SPEED, WIDTH, Scene, draw_scene

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.dedup.near.minhash import Signer
from strandline_packs.dedup.near.near_duplicates import find_near_duplicates
from strandline_packs.images.pictures import measure
from strandline_packs.video import decode_frames
from strandline_packs.video.files.clips import ClipFrame
from strandline_packs.video.files.containers import load_av
from strandline_packs.video.measures import (
    hash_frames,
    measure_look,
    measure_motion,
    to_grey,
)

# Encodes, decodes, or runs models.
pytestmark = pytest.mark.slow

GREY = np.array([0.299, 0.587, 0.114])


def list_clips(path: Path, **values: Any) -> pa.Table:
    (table,) = StageRun("split-video", **values).tables([{"key": path.name, "path": str(path)}])
    return table


@pytest.fixture(scope="module")
def clips(videos: Path) -> pa.Table:
    """Return the five scenes of the silent video, one clip each."""
    return list_clips(videos / "silent.mp4")


def run(use: str, table: pa.Table, **values: Any) -> pa.Table:
    answer = StageRun(use, **values).table(table)
    assert answer is not None
    return answer


def draw(kind: str, **values: Any) -> Any:
    """Return the gray levels of a scene as drawn."""
    (scene,) = [each for each in SCENES if each.kind == kind]
    return np.stack([pixels @ GREY for pixels in draw_scene(scene)])


@pytest.mark.parametrize("rate", [1, 2, 5, 12.5, 25, 100])
def test_frames_are_sampled_at_their_time(clips: pa.Table, rate: float) -> None:
    table = run("decode-frames", clips, rate=rate)
    for row in table.to_pylist():
        step = max(1, round(RATE / rate))
        expected = [at / RATE for at in range(0, row["frame_count"], step)]
        if RATE % rate == 0 or rate > RATE:
            assert row["frame_times"] == pytest.approx(expected, abs=0.0011)
        assert len(row["frames"]) == len(row["frame_times"])
        assert all(late > early for early, late in pairwise(row["frame_times"]))


@pytest.mark.parametrize("rate", [24, 30, 30000 / 1001, 60])
def test_the_rate_of_the_clip_itself_samples_each_frame(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = load_av().VideoFrame(32, 32, "rgb24")
    times = [round(at / rate, 3) for at in range(200)]
    monkeypatch.setattr(
        decode_frames, "decode_clip", lambda _: (ClipFrame(time, frame) for time in times)
    )
    clip = {"clip": "a", "start": 0.0, "end": 200 / rate, "frame_count": 200}
    found = StageRun("decode-frames", rate=rate, maxFrames=300).stage._sample(clip)
    assert list(found) == times


def test_uneven_videos_are_sampled_by_time_and_not_by_number(videos: Path) -> None:
    table = run("decode-frames", list_clips(videos / "uneven.mkv"), rate=5)
    for row in table.to_pylist():
        # No frame is further from its time than the longest interval between frames.
        off = [time - at / 5 for at, time in enumerate(row["frame_times"])]
        assert all(0 <= each + 0.0011 and each < 0.08 for each in off)


def test_frames_are_shrunk_in_proportion_and_never_enlarged(clips: pa.Table) -> None:
    for longest, size in ((80, (80, 60)), (500, (160, 120))):
        (first, *_) = run("decode-frames", clips, longest=longest)["frames"].to_pylist()
        assert {size} == {(each["width"], each["height"]) for each in first}
        assert {3 * size[0] * size[1]} == {len(each["rgb"]) for each in first}


def test_frames_of_a_long_clip_are_further_apart(clips: pa.Table) -> None:
    for row in run("decode-frames", clips, rate=25, maxFrames=4).to_pylist():
        assert 4 == len(row["frames"])
        length = row["end"] - row["start"]
        assert row["frame_times"] == pytest.approx(
            [at * length / 4 for at in range(4)], abs=1 / RATE
        )


def test_a_clip_without_frames_fails_or_is_dropped_and_counted(clips: pa.Table) -> None:
    rows = clips.to_pylist()
    rows[1]["content"] = b"nothing"
    bad = pa.Table.from_pylist(rows, clips.schema)
    with pytest.raises(UnreadableFileError, match=r"silent.mp4#00001: not a readable video"):
        run("decode-frames", bad)
    stage = StageRun("decode-frames", badVideos="drop")
    assert [0, 2, 3, 4] == [int(row["clip"][-5:]) for row in stage.rows(bad)]
    assert {"dropped: no frame that can be decoded": 1} == stage.counters
    assert [] == stage.rows(bad.slice(1, 1))


def test_measures_match_the_drawn_frames(clips: pa.Table) -> None:
    table = run("measure-video", run("decode-frames", clips, rate=RATE))
    looks = {scene.kind: row for scene, row in zip(SCENES, table.to_pylist(), strict=True)}
    for kind in ("shapes", "still", "black", "titled"):
        drawn = measure_look(draw(kind))
        assert looks[kind]["brightness"] == pytest.approx(draw(kind).mean() / 255, abs=0.01)
        assert looks[kind]["black_share"] == drawn.black_share
        assert looks[kind]["text_share"] == pytest.approx(drawn.text_share, abs=0.01)
        assert looks[kind]["sharpness"] == pytest.approx(drawn.sharpness, rel=0.3)
    black = {kind: row["black_share"] for kind, row in looks.items()}
    assert {"shapes": 0, "still": 0, "black": 1, "noise": 0, "titled": 0} == black
    frozen = {kind: row["frozen_share"] for kind, row in looks.items()}
    assert (1, 1, 0) == (frozen["still"], frozen["black"], frozen["noise"])
    assert frozen["shapes"] < 0.2
    # The line of strokes has an eighth of the height, in cells of 8 pixels.
    assert looks["titled"]["text_share"] == pytest.approx(1 / 15, abs=0.02)
    assert 0 == looks["shapes"]["text_share"] == looks["noise"]["text_share"]
    assert looks["noise"]["sharpness"] > 100 * looks["still"]["sharpness"]


def test_motion_measures_changes_between_frames(clips: pa.Table) -> None:
    table = run("measure-motion", run("decode-frames", clips, rate=RATE))
    moves = {scene.kind: row for scene, row in zip(SCENES, table.to_pylist(), strict=True)}
    drawn = measure_motion(draw("shapes"))
    assert moves["shapes"]["motion"] == pytest.approx(drawn.motion, rel=0.2)
    assert moves["still"]["motion"] < 0.0005
    assert 0 == moves["still"]["moving_share"] == moves["black"]["moving_share"]
    assert 1 == moves["noise"]["moving_share"]


def test_motion_is_computed_from_the_square_that_moves() -> None:
    frames = np.zeros((3, HEIGHT, WIDTH), "float32")
    for at in range(3):
        frames[at, 40 : 40 + SIDE, SPEED * at : SPEED * at + SIDE] = 255
    motion = measure_motion(frames)
    assert motion.motion == pytest.approx(2 * SPEED * SIDE / (WIDTH * HEIGHT), abs=1e-6)
    # Two columns of three cells: the left and the right edge of the square.
    assert motion.moving_share == pytest.approx(2 * 3 / (20 * 15), abs=1e-6)
    assert (0.0, 0.0) == measure_motion(frames[:1])


def test_sharpness_is_that_of_pictures(clips: pa.Table) -> None:
    for row in run("decode-frames", clips, maxFrames=1).to_pylist():
        (picture,) = row["frames"]
        expected = measure(picture)["sharpness"]
        assert measure_look(to_grey([picture])).sharpness == pytest.approx(
            expected, rel=0.05, abs=1
        )


def test_tiny_frames_are_measured(clips: pa.Table) -> None:
    for row in run("measure-video", run("decode-frames", clips, longest=1)).to_pylist():
        assert 0 == row["sharpness"] == row["text_share"]


def test_clips_out_of_bounds_are_dropped_under_their_first_reason() -> None:
    rows = [
        {"name": "kept", "a": 0.5, "b": 0.1},
        {"name": "low", "a": 0.1, "b": 0.9},
        {"name": "high", "a": 0.5, "b": 0.9},
        {"name": "null", "a": None, "b": 0.1},
        {"name": "nan", "a": float("nan"), "b": 0.1},
        {"name": "edges", "a": 0.2, "b": 0.5},
    ]
    stage = StageRun("filter-video", bounds={"a": [0.2, None], "b": [None, 0.5]})
    assert ["kept", "edges"] == [row["name"] for row in stage.rows(rows)]
    assert {
        "dropped: a below 0.2": 1,
        "dropped: b above 0.5": 1,
        "dropped: no a": 2,
    } == stage.counters
    with pytest.raises(ValueError, match="a: the minimum, 2, is above the maximum, 1"):
        StageRun("filter-video", bounds={"a": [2, 1]})


def test_the_filter_keeps_visible_content(clips: pa.Table) -> None:
    kept = StageRun("filter-video").rows(run("measure-video", run("decode-frames", clips)))
    assert ["shapes", "noise", "titled"] == [SCENES[int(row["clip"][-5:])].kind for row in kept]


def test_copies_are_found_among_all_clips_and_others_are_not(videos: Path) -> None:
    signer, signatures = Signer(1), []
    for name in ("silent.mp4", "again.mkv", "audible.mp4"):
        clips = list_clips(videos / name)
        again = run("transcode-clip", clips, longest=96, quality=32)
        for kind, table in (("first", clips), ("again", again)):
            for row in run("hash-video", run("decode-frames", table, rate=5)).to_pylist():
                signature = signer.sign(row["hash"])
                assert signature is not None
                signatures.append((f"{row['clip']} {kind}", signature))
    found = find_near_duplicates(signatures, 0.5)
    noise = "silent.mp4#00003"  # no encoder preserves noise
    expected = {
        f"{clip} first": f"{clip} again"
        for clip in (f"{name}#{at:05}" for name, count in
                     (("silent.mp4", 5), ("audible.mp4", 2), ("again.mkv", 2))
                     for at in range(count))
        if clip != noise
    }  # fmt: skip
    # The first scene is in two videos.
    same = {f"silent.mp4#00000 {kind}": "again.mkv#00000 again" for kind in ("first", "again")}
    assert expected | same == found


@given(seeds=st.tuples(st.integers(0, 2**32), st.integers(0, 2**32)), samples=st.integers(1, 16))
def test_law_a_hash_has_its_words_and_differs_between_looks(
    seeds: tuple[int, int], samples: int
) -> None:
    hashes = [
        hash_frames(
            np.stack([pixels @ GREY for pixels in draw_scene(Scene("still", 2, seed))]), samples
        ).split()
        for seed in seeds
    ]
    for words in hashes:
        assert 16 * samples == len(set(words))
        assert {f"{at:x}{band:x}" for at in range(samples) for band in range(16)} == {
            word[:2] for word in words
        }
    assert (seeds[0] == seeds[1]) <= (hashes[0] == hashes[1])
