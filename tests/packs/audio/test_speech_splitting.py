"""Speech is cut at pauses: the rules on probabilities, and silero-vad on spoken sentences."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_speech import RATE, SENTENCES, join_sentences, speak, write_all, write_sound
from pydantic import ValidationError

from example_counts import scale_examples
from signals import decode, encode, make_noise, make_silence, make_tone
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.task import Task
from strandline_packs.audio.sounds.segments import Segment, SegmentLimits, SpeechCutter
from strandline_packs.models.model_files import ModelError
from tiny_models import make_mean

# A window of a second: seconds and numbers of windows are the same.
LIMITS = SegmentLimits(1.0, 0.5, min_speech=2, min_silence=3, max_length=10, padding=1)


def cut(probabilities: list[float], limits: SegmentLimits = LIMITS) -> tuple[list[Segment], int]:
    cutter = SpeechCutter(limits)
    found = [segment for each in probabilities for segment in cutter.add(each)]
    return [*found, *cutter.finish()], cutter.short


def test_pauses_end_segments_and_short_ones_are_counted() -> None:
    speech = [0, 0, 0.9, 0.9, 0.1, 0.4, 0.9, 0, 0, 0, 0, 0.9, 0, 0, 0, 0, 0, 0.9, 0.9, 0.9]
    segments, short = cut(speech)
    assert [(1, 8), (16, 21)] == [segment[:2] for segment in segments]
    assert 1 == short
    assert (0.9 * 3 + 0.1 + 0.4) / 5 == pytest.approx(segments[0].probability)


def test_long_speech_is_cut_where_speech_is_least_probable() -> None:
    speech = [0.9] * 20
    speech[6], speech[2] = 0.6, 0.5
    segments, _ = cut(speech)
    assert [(0, 7), (7, 12), (12, 17), (17, 21)] == [segment[:2] for segment in segments]


@settings(max_examples=scale_examples(200))
@given(st.lists(st.sampled_from([0.0, 0.3, 0.45, 0.6, 1.0]), max_size=80))
def test_law_segments_keep_all_speech_once(probabilities: list[float]) -> None:
    segments, short = cut(probabilities)
    assert all(0 < end - start <= 10 for start, end, _ in segments)
    assert all(before.end <= after.start for before, after in pairwise(segments))
    held = [at for start, end, _ in segments for at in range(int(start), int(end))]
    missing = [at for at, each in enumerate(probabilities) if each >= 0.5 and at not in held]
    assert len(missing) <= short * 2


@settings(max_examples=scale_examples(50))
@given(st.lists(st.sampled_from([0.0, 0.4, 1.0]), max_size=200))
def test_law_no_segment_begins_before_what_was_needed(probabilities: list[float]) -> None:
    cutter = SpeechCutter(LIMITS)
    for number, each in enumerate(probabilities):
        needed = cutter.needed
        assert number - needed <= 11
        for segment in cutter.add(each):
            assert segment.start >= needed


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    write_all(folder)
    return folder


def split(path: Path, **values: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    stage = StageRun("split-speech", **values)
    tables = stage.tables([{"key": path.name, "path": str(path)}])
    counters = {name: number for name, number in stage.counters.items() if number}
    return [row for table in tables for row in table.to_pylist()], counters


@pytest.mark.parametrize("rate", [None, 16_000, 8000])
def test_each_spoken_sentence_is_found_between_its_pauses(tmp_path: Path, rate: int | None) -> None:
    path = write_sound(tmp_path / "a.flac", join_sentences(SENTENCES[:3]))
    rows, _ = split(path, rate=rate, minSilenceSeconds=0.6)
    begin = 1.0
    assert len(rows) == 3
    for row, text in zip(rows, SENTENCES, strict=False):
        end = begin + len(speak(text)) / RATE
        assert begin - 0.15 <= row["start"] <= begin + 0.1  # with a padding of 0.1
        assert end - 0.5 <= row["end"] <= end + 0.3
        begin = end + 1.0
        sound = decode(row["audio"])
        assert sound.rate == row["sample_rate"] == (rate or RATE)
        assert row["end"] - row["start"] == pytest.approx(sound.seconds)
        assert row["speech_probability"] > 0.7


def test_segments_are_the_samples_of_the_file(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.flac", join_sentences(SENTENCES[:2]))
    whole = decode(path.read_bytes()).samples
    rows, counters = split(path, rate=None)
    for row in rows:
        begin, sound = round(row["start"] * RATE), decode(row["audio"])
        assert np.array_equal(whole[begin : begin + len(sound.samples)], sound.samples)
    left_out = len(whole) / RATE - sum(row["duration"] for row in rows)
    assert left_out == pytest.approx(counters["left out: seconds without speech"], abs=0.5)


def test_long_speech_has_clips_of_the_maximum_length(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.flac", join_sentences(SENTENCES, pause=0.05))
    rows, _ = split(path, maxSeconds=2)
    assert len(rows) > 5
    assert max(row["duration"] for row in rows) <= 2
    for before, after in pairwise(rows):
        assert before["end"] <= after["start"] + 1e-4


def test_tones_noise_and_silence_are_not_speech(recordings: Path, tmp_path: Path) -> None:
    noise = tmp_path / "noise.wav"
    noise.write_bytes(encode(make_noise(-30, 5), 16_000))
    for path in (recordings / "tone.wav", recordings / "silence.flac", noise):
        rows, counters = split(path)
        assert ([], 1) == (rows, counters["dropped: no speech"])
        assert 5 == counters["left out: seconds without speech"]


def test_bad_recordings_are_counted(recordings: Path) -> None:
    for name, clips in (("truncated.flac", True), ("broken.mp3", False)):
        rows, counters = split(recordings / name, badAudio="drop")
        assert bool(rows) == clips
        assert 1 == counters["dropped: not audio, or an end that can't be read"]
        with pytest.raises(UnreadableFileError, match=name):
            split(recordings / name)


def test_memory_does_not_grow_with_the_length_of_a_recording(tmp_path: Path) -> None:
    once, peaks = join_sentences(SENTENCES[:2]), []
    for times in (2, 12):
        path = write_sound(tmp_path / f"{times}.flac", np.tile(once, times))
        stage = StageRun("split-speech", clipsPerTask=1, maxSeconds=5)
        table = pa.table({"key": ["a"], "path": [str(path)]})
        tracemalloc.start()
        assert sum(1 for _ in stage.stage.process(Task(table))) >= times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 3_000_000


def test_only_silero_vad_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a model of silero-vad 5 or newer: its inputs are x"):
        StageRun("split-speech", model=make_mean(tmp_path / "mean.onnx"))
    with pytest.raises(ValidationError, match="paddingSeconds must be at most half"):
        StageRun("split-speech", paddingSeconds=0.2)
    with pytest.raises(ValidationError, match="maxSeconds must be at least twice"):
        StageRun("split-speech", maxSeconds=0.5)


def test_stereo_is_heard_on_both_sides(tmp_path: Path) -> None:
    wave = join_sentences(SENTENCES[:1])[:, None]
    path = tmp_path / "a.wav"
    path.write_bytes(encode(np.hstack([make_silence(len(wave) / RATE, RATE), wave]), RATE))
    rows, _ = split(path, channels="keep", rate=None)
    assert rows
    assert {2} == {row["channels"] for row in rows}
    assert not decode(rows[0]["audio"]).samples[:, 0].any()
    assert make_tone(0, 1).shape == (48_000, 1)
