"""Measures are compared with signals of known level, noise, and bandwidth."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyloudnorm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, sosfilt

from example_counts import scale_examples
from gatherings import Gathering
from signals import encode, make_noise, make_silence, make_tone
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.audio.sounds.clips import load_clip


def measure(samples: Any, rate: int = 48_000, **values: Any) -> dict[str, Any]:
    content = encode(samples, rate, subtype="FLOAT")
    rows = StageRun("measure-audio", **values).rows([{"key": "a", "audio": content}])
    return rows[0]


# Signals of EBU Tech 3341, shortened: levels in dB, and seconds of each.
@pytest.mark.parametrize(
    ("steps", "loudness"),
    [
        ([(-23, 5)], -23),
        ([(-33, 5)], -33),
        ([(-36, 4), (-23, 20), (-36, 4)], -23),
        ([(-72, 4), (-36, 4), (-23, 20), (-36, 4), (-72, 4)], -23),
        ([(-26, 10), (-20, 10.05), (-26, 10)], -23),
    ],
)
def test_tones_have_the_loudness_that_ebu_states(
    steps: list[tuple[float, float]], loudness: float
) -> None:
    tones = np.concatenate([make_tone(level, seconds, channels=2) for level, seconds in steps])
    assert loudness == pytest.approx(measure(tones)["loudness"], abs=0.1)


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_loudness_agrees_with_another_program(rate: int, channels: int) -> None:
    parts = [make_noise(level, 2, rate, seed) for seed, level in enumerate((-40, -20, -30, -75))]
    samples = np.repeat(np.concatenate(parts), channels, axis=1)
    expected = pyloudnorm.Meter(rate, "DeMan").integrated_loudness(samples.astype("float64"))
    assert expected == pytest.approx(measure(samples, rate)["loudness"], abs=0.02)


@pytest.mark.parametrize("hertz", [997, 12_000])
def test_peaks_between_samples_are_found(hertz: float) -> None:
    at = np.arange(48_000) / 48_000
    # No sample of 12 kHz is at a peak: the highest are 3 dB below. The sound begins slowly.
    wave = 0.5 * np.minimum(1, 4 * at) * np.sin(2 * np.pi * hertz * at + np.pi / 4)
    wave *= np.minimum(1, 4 * at[::-1])
    row = measure(wave.astype("float32")[:, None])
    assert -6.02 == pytest.approx(row["peak"], abs=0.2)


@pytest.mark.parametrize("ratio", [5, 10, 20, 30, 40])
@pytest.mark.parametrize("rate", [8000, 16_000, 48_000])
def test_the_noise_between_sounds_is_measured(ratio: float, rate: int) -> None:
    tones = [
        part
        for _ in range(4)
        for part in (make_silence(0.5, rate), make_tone(-17, 1, rate, 300))  # a power of -20 dB
    ]
    sound = np.concatenate(tones)
    noisy = sound + make_noise(-20 - ratio, len(sound) / rate, rate)
    assert ratio == pytest.approx(measure(noisy, rate)["snr"], abs=0.7)


def test_sound_without_a_pause_has_no_noise_level() -> None:
    assert measure(make_tone(-20, 3))["snr"] is None
    assert measure(make_noise(-20, 3), 16_000)["snr"] is None
    clean = measure(np.concatenate([make_silence(1), make_tone(-20, 1)]))["snr"]
    assert 75 < clean < 90  # the rounding error of 16 bits


@pytest.mark.parametrize("gain", [1.0, 0.5])
@pytest.mark.parametrize("level", [3, 6, 12])
def test_the_share_of_clipped_samples_is_exact(level: float, gain: float) -> None:
    tone = make_tone(level, 2, hertz=440)
    expected = (np.abs(tone) >= 1).mean()
    assert expected == pytest.approx(
        measure(np.clip(tone, -1, 1) * gain)["clipped_share"], abs=0.02
    )


@pytest.mark.parametrize("samples", [make_tone(0, 1, hertz=100), make_tone(-30, 1, hertz=20)])
def test_a_loud_or_low_tone_is_not_clipped(samples: Any) -> None:
    assert measure(samples)["clipped_share"] < 0.002


def test_frames_below_a_level_are_silent() -> None:
    parts = [make_tone(-20, 1), make_tone(-70, 1), make_silence(2)]
    samples = np.concatenate(parts)
    assert 0.75 == pytest.approx(measure(samples)["silence_share"], abs=0.01)
    assert 0.5 == pytest.approx(measure(samples, silence=-80)["silence_share"], abs=0.01)


@pytest.mark.parametrize("limit", [2000, 4000, 8000, 16_000])
def test_the_bandwidth_of_filtered_noise_is_its_limit(limit: float) -> None:
    steep = butter(20, limit, fs=48_000, output="sos")
    noise = sosfilt(steep, make_noise(-20, 3, 48_000), axis=0).astype("float32")
    # The filter is 60 dB down at 1.41 times its limit.
    assert limit < measure(noise)["bandwidth"] < 1.45 * limit
    assert 23_900 < measure(make_noise(-20, 1, 48_000))["bandwidth"] <= 24_000


def test_silence_and_short_sounds_have_measures() -> None:
    row = measure(make_silence(1))
    assert (None, None, None) == (row["loudness"], row["peak"], row["snr"])
    assert (0, 1, 0) == (row["clipped_share"], row["silence_share"], row["bandwidth"])
    row = measure(make_tone(-20, 0.001))
    assert row["loudness"] is None
    assert -20 == pytest.approx(row["peak"], abs=0.5)


@settings(max_examples=scale_examples(40))
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=400),
    st.sampled_from([8000, 16_000, 44_100]),
    st.floats(-30, 0),
)
def test_law_a_gain_moves_levels_and_keeps_shares(
    values: list[float], rate: int, gain: float
) -> None:
    samples = np.tile(np.array(values, "float32"), 20)[:, None]
    before, after = (measure(each, rate) for each in (samples, samples * 10 ** (gain / 20)))
    for name in ("loudness", "peak"):
        if before[name] is not None and before[name] + gain > -60:
            assert before[name] + gain == pytest.approx(after[name], abs=0.1)
    for name in ("clipped_share", "silence_share"):
        assert 0 <= before[name] <= 1
    assert 0 <= before["bandwidth"] <= rate / 2


def test_clips_that_are_no_audio_are_dropped_and_counted_or_fail() -> None:
    good = encode(make_tone(-6, 1), 48_000)
    beyond = good[:16] + b"\xff\xff" + good[18:]  # the chunk with the format ends beyond the file
    fast = good[:24] + b"\xff\xff\xff\x7f" + good[28:]  # 2 GHz
    contents = {"a": good, "b": b"x", "c": None, "d": beyond, "e": fast}
    rows = [{"clip": name, "audio": data} for name, data in contents.items()]
    stage = StageRun("measure-audio", badAudio="drop")
    assert ["a"] == [row["clip"] for row in stage.rows(rows)]
    assert {"dropped: not audio": 4} == stage.counters
    assert [] == stage.rows(rows[1:])
    with pytest.raises(UnreadableFileError, match=r"^b: not readable audio"):
        StageRun("measure-audio").rows(rows)
    with pytest.raises(TypeError, match="the column 'clip' holds string, not bytes of audio"):
        StageRun("measure-audio", column="clip").rows(rows)


def test_clips_outside_the_bounds_are_dropped_with_their_waveforms() -> None:
    tone = encode(make_tone(-6, 1), 48_000)
    rows = [
        {"clip": "quiet", "audio": tone, "snr": 5.0, "clipped_share": 0.0, "silence_share": 0.0},
        {"clip": "unknown", "audio": b"x", "snr": None, "clipped_share": 0.0, "silence_share": 0.0},
        {"clip": "good", "audio": tone, "snr": 30.0, "clipped_share": 0.0, "silence_share": 0.1},
    ]
    stage = StageRun("filter-audio", pictures=True)
    assert ["good"] == [row["clip"] for row in stage.rows(rows)]
    assert {"dropped: snr below 10": 1, "dropped: no snr": 1} == stage.counters
    piece = stage.stage.flush()
    assert piece is not None
    assert 2 == piece.count(b"JFIF")  # of the readable clips


def test_the_report_plays_the_first_seconds_of_a_clip(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "filter-audio", pictures=True, bounds={"snr": [10, None]})
    clips = pa.table({"clip": ["a"], "audio": [encode(make_tone(-6, 8), 48_000)], "snr": [30.0]})
    merged = gathering.merge(gathering.pieces([clips]))
    panel = gathering.panel(gathering.artifacts(merged)) or ""
    (content,) = re.findall('<audio [^>]*src="data:audio/mpeg;base64,([^"]+)"', panel)
    sound = load_clip(base64.b64decode(content), "a")
    assert (16_000, 1) == (sound.rate, sound.samples.shape[1])
    assert 5 == pytest.approx(sound.seconds, abs=0.2)
    assert 0.5 == pytest.approx(abs(sound.average()).max(), abs=0.1)  # -6 dB
    assert len(content) < 30_000
