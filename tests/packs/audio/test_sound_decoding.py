"""Files become clips of the requested rate and channels, block by block; bad files are counted."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from signals import decode, encode, find_pitch, make_noise, make_silence, make_tone
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.task import Task
from strandline_packs.audio.sounds.clips import load_clip


def read(content: bytes, **values: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the clips of a file in the column `sound`, and the counters."""
    stage = StageRun("decode-audio", column="sound", **values)
    tables = stage.tables([{"key": "a", "sound": content}])
    counters = {name: number for name, number in stage.counters.items() if number}
    return [row for table in tables for row in table.to_pylist()], counters


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("WAV", "PCM_U8"),
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "PCM_32"),
        ("WAV", "FLOAT"),
        ("WAV", "DOUBLE"),
        ("FLAC", "PCM_24"),
        ("AIFF", "PCM_16"),
        ("OGG", "VORBIS"),
        ("MP3", "MPEG_LAYER_III"),
    ],
)
def test_every_format_has_its_level_pitch_and_length(kind: str, subtype: str) -> None:
    content = encode(make_tone(-6, 2, 44_100, 500, 2), 44_100, kind, subtype)
    ((row,), counters) = read(content)
    sound = decode(row["audio"])
    assert not counters
    assert (16_000, 1) == (row["sample_rate"], row["channels"])
    assert row["duration"] == pytest.approx(2, abs=0.06)  # MP3 pads
    assert row["end"] - row["start"] == row["duration"] == sound.seconds
    middle = sound.samples[8000:24_000]
    assert 500 == pytest.approx(find_pitch(middle, 16_000), abs=1.1)
    assert 10 ** (-6 / 20) == pytest.approx(np.abs(middle).max(), rel=0.03)  # Vorbis adds ripples


def test_16_bits_at_their_own_rate_are_kept_exactly() -> None:
    noise = np.clip(np.hstack([make_noise(-12, 1, 44_100, seed) for seed in (1, 2)]), -1, 0.999)
    content = encode(noise, 44_100, "FLAC", "PCM_16")
    ((row,), counters) = read(content, rate=None, channels="keep")
    assert not counters
    assert ("flac", 44_100, 2) == (row["codec"], row["sample_rate"], row["channels"])
    assert np.array_equal(decode(content).samples, decode(row["audio"]).samples)
    assert np.array_equal(decode(content).samples, load_clip(content, "a").samples)


def test_channels_are_averaged() -> None:
    left = np.hstack([make_tone(-6, 1), make_silence(1)])
    ((row,), _) = read(encode(left, 48_000))
    peak = np.abs(decode(row["audio"]).samples[4000:12_000]).max()
    assert 10 ** (-12 / 20) == pytest.approx(peak, rel=0.02)
    ((row,), _) = read(encode(np.repeat(make_tone(-6, 1), 12, axis=1), 48_000))
    assert 1 == row["channels"]
    with pytest.raises(UnreadableFileError, match=r"a: 12 channels can't be kept"):
        read(encode(np.repeat(make_tone(-6, 1), 12, axis=1), 48_000), channels="keep")


@pytest.mark.parametrize("rate", [8000, 22_050, 48_000])
def test_nothing_above_half_the_rate_remains(rate: int) -> None:
    sound = make_tone(-6, 1, 96_000, 0.6 * rate) + make_tone(-20, 1, 96_000, 0.1 * rate)
    ((row,), _) = read(encode(sound, 96_000), rate=rate)
    samples = decode(row["audio"]).samples
    assert len(samples) == rate
    assert 0.1 * rate == pytest.approx(find_pitch(samples, rate), rel=0.01)
    power = (samples[rate // 4 : rate // 2] ** 2).mean()
    assert 0.1**2 / 2 == pytest.approx(power, rel=0.02)


def test_a_long_file_becomes_clips_without_a_gap() -> None:
    noise = make_noise(-20, 10)
    whole, _ = read(encode(noise, 16_000, subtype="PCM_16"))
    rows, counters = read(encode(noise, 16_000, subtype="PCM_16"), maxSeconds=3, clipsPerTask=2)
    assert [(0, 3), (3, 6), (6, 9), (9, 10)] == [(row["start"], row["end"]) for row in rows]
    assert [f"a#{at:05}" for at in range(4)] == [row["clip"] for row in rows]
    assert {"cut: longer than maxSeconds": 3} == counters
    joined = np.concatenate([decode(row["audio"]).samples for row in rows])
    assert np.array_equal(joined, decode(whole[0]["audio"]).samples)


@pytest.mark.parametrize("target", [-30, -16])
def test_loudness_is_scaled_as_far_as_peaks_allow(target: float) -> None:
    content = encode(make_tone(-20, 3, channels=2), 48_000)
    ((row,), counters) = read(content, loudness=target, rate=None, channels="keep")
    peak = np.abs(decode(row["audio"]).samples).max()
    assert 20 * np.log10(peak) == pytest.approx(target, abs=0.15)  # a stereo tone of 0 dB: 0 LUFS
    assert not counters
    ((row,), counters) = read(content, loudness=0, rate=None, channels="keep")
    assert 20 * np.log10(np.abs(decode(row["audio"]).samples).max()) == pytest.approx(-1, abs=0.1)
    assert {"reduced: loudness limited by peaks": 1} == counters


def test_samples_above_full_scale_are_clipped_and_counted() -> None:
    loud = make_tone(6, 1, 16_000, 100)
    loud[10], loud[11] = np.nan, np.inf
    ((row,), counters) = read(encode(loud, 16_000, subtype="FLOAT"))
    assert {"reduced: clips with samples above full scale": 1} == counters
    assert 1 == pytest.approx(np.abs(decode(row["audio"]).samples).max(), abs=1e-4)


def test_other_columns_stay_with_each_clip_of_their_file() -> None:
    content = encode(make_tone(-6, 2), 48_000)
    rows = [
        {"key": "a", "audio": {"bytes": content, "path": "a.wav"}, "text": "one"},
        {"key": "b", "audio": {"bytes": content, "path": "b.wav"}, "text": "two"},
    ]
    found = StageRun("decode-audio", column="audio", maxSeconds=1).rows(rows)
    assert [("a#00000", "one"), ("a#00001", "one"), ("b#00000", "two"), ("b#00001", "two")] == [
        (row["clip"], row["text"]) for row in found
    ]


def test_the_sound_of_a_video_is_decoded(videos: Path) -> None:
    paths = [videos / "audible.mp4", videos / "silent.mp4"]
    stage = StageRun("decode-audio", badAudio="drop")
    rows = stage.rows([{"key": path.name, "path": str(path)} for path in paths])
    assert ["audible.mp4#00000"] == [row["clip"] for row in rows]
    assert 440 == pytest.approx(find_pitch(decode(rows[0]["audio"]).samples, 16_000), abs=1)
    assert {"path", "start"} & rows[0].keys() == {"start"}
    assert 1 == stage.counters["dropped: not audio, or an end that can't be read"]


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "MP4", "MKV"])
def test_a_truncated_file_fails_or_keeps_its_readable_part(kind: str, tmp_path: Path) -> None:
    content = encode(make_noise(-20, 10), 16_000, kind if len(kind) > 3 else "WAV")
    if kind in {"MP4", "MKV"}:
        content = remux(content, tmp_path / f"a.{kind.lower()}")
    cut = content[: len(content) * 6 // 10]
    with pytest.raises(
        UnreadableFileError, match=r"a: the sound ends after [\d.,]+ of [\d.,]+ (s|b)"
    ):
        read(cut)
    ((row,), counters) = read(cut, badAudio="drop")
    assert 5 < row["duration"] < 7
    assert 1 == counters["dropped: not audio, or an end that can't be read"]


def remux(content: bytes, path: Path) -> bytes:
    """Return the sound as AAC in another container, with the index at its start."""
    moved = {"movflags": "+faststart"} if path.suffix == ".mp4" else {}
    with av.open(str(path), "w", options=moved) as file:
        stream: Any = file.add_stream("aac", rate=16_000, layout="mono")
        samples = decode(content).samples
        for begin in range(0, len(samples), 1024):
            part = np.ascontiguousarray(samples[begin : begin + 1024].T)
            frame = av.AudioFrame.from_ndarray(part, "fltp", "mono")
            frame.sample_rate, frame.pts = 16_000, begin
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path.read_bytes()


def test_bad_files_are_dropped_and_counted_or_fail() -> None:
    good = encode(make_tone(-6, 1), 48_000)
    empty = encode(make_silence(0), 48_000)
    contents = [good, b"", b"no audio", np.random.default_rng(0).bytes(4000), empty, None, good]
    rows = [{"key": str(at), "sound": content} for at, content in enumerate(contents)]
    stage = StageRun("decode-audio", column="sound", badAudio="drop")
    assert ["0#00000", "6#00000"] == [row["clip"] for row in stage.rows(rows)]
    assert 5 == stage.counters["dropped: not audio, or an end that can't be read"]
    for at in range(1, 6):
        with pytest.raises(UnreadableFileError, match=rf"^{at}: not readable audio"):
            StageRun("decode-audio", column="sound").tables(rows[at : at + 1])


@settings(max_examples=scale_examples(60))
@given(
    kind=st.sampled_from(["WAV", "FLAC", "OGG", "MP3"]),
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=20),
    kept=st.floats(0, 1),
)
def test_law_a_damaged_file_is_decoded_or_counted(
    kind: str, edits: list[tuple[float, int]], kept: float
) -> None:
    content = bytearray(ENCODED[kind])
    for place, value in edits:
        content[int(place * len(content))] = value
    rows, counters = read(bytes(content[: int(kept * len(content))]), badAudio="drop")
    assert rows or counters["dropped: not audio, or an end that can't be read"] == 1
    for row in rows:
        assert row["duration"] == decode(row["audio"]).seconds > 0
    StageRun("measure-audio", badAudio="drop").rows([{"key": "a", "audio": bytes(content)}])


ENCODED = {kind: encode(make_noise(-20, 1), 16_000, kind) for kind in ("WAV", "FLAC", "OGG", "MP3")}


def test_memory_does_not_grow_with_the_length_of_a_file(tmp_path: Path) -> None:
    peaks = []
    for minutes in (1, 6):
        path = tmp_path / f"{minutes}.flac"
        path.write_bytes(encode(np.tile(make_tone(-6, 60), (minutes, 1)), 48_000, "FLAC"))
        stage = StageRun("decode-audio", maxSeconds=5, clipsPerTask=1)
        table = pa.table({"key": ["a"], "path": [str(path)]})
        tracemalloc.start()
        assert 12 * minutes == sum(1 for _ in stage.stage.process(Task(table)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 5_000_000  # a clip has 160 kB as WAV, and twice that as floats
