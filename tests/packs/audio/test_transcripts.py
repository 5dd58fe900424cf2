"""Clips are transcribed, their languages are named, and they are encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from make_speech import RATE, SENTENCES, join_sentences, speak
from pydantic import ValidationError

from signals import decode, encode, find_pitch, make_noise, make_silence, make_tone
from sound_models import LABELS, write_listener, write_recogniser
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.fingerprint import compute_fingerprint
from strandline_packs.audio.recognisers.onnx_models import join_tokens
from strandline_packs.models.model_files import ModelError


def build(*sounds: Any, rate: int = 16_000) -> list[dict[str, Any]]:
    return [
        {"clip": str(at), "audio": encode(each, rate, "FLAC", "PCM_16")}
        for at, each in enumerate(sounds)
    ]


def test_spoken_words_have_times_and_confidence() -> None:
    sound = join_sentences(SENTENCES[4:5], pause=0.3)[:, None]
    ((row,)) = StageRun("transcribe").rows(build(sound, rate=RATE))
    said = row["text"].split()
    assert [each["word"] for each in row["words"]] == said
    assert len(set(said) & {*SENTENCES[4].split()}) >= 5
    assert 0 < row["confidence"] <= 1
    times = [time for each in row["words"] for time in (each["start"], each["end"])]
    assert times == sorted(times)
    assert 0.3 == pytest.approx(times[0], abs=0.1)
    assert len(sound) / RATE - 0.3 == pytest.approx(times[-1], abs=0.3)


def test_a_transcript_does_not_depend_on_earlier_clips() -> None:
    rows = build(*(speak(text)[:, None] for text in ("good morning", "no thanks")), rate=RATE)
    stage = StageRun("transcribe")
    assert stage.rows(rows) == stage.rows(rows[::-1])[::-1]


def test_silence_has_no_words() -> None:
    (row,) = StageRun("transcribe").rows(build(make_silence(1, 16_000)))
    assert not row["text"]
    assert not row["words"]


def test_a_model_in_a_folder_gives_words_with_times(tmp_path: Path) -> None:
    """The model is tiny, but its features and its decoding are those of the library."""
    folder = write_recogniser(tmp_path / "model")
    low, high = make_tone(-10, 1, 16_000, 200), make_tone(-10, 1, 16_000, 6000)
    rows = build(np.concatenate([low, high]))
    model = str(Path(folder).parent)
    stage = StageRun("transcribe", engine="nemo-conformer-ctc", model=model)
    (row,) = stage.rows(rows)
    # The filter before the features makes the first frame high.
    assert ["fl", "ebb", "fl"] == [each["word"] for each in row["words"]] == row["text"].split()
    assert [0, 0, 1] == pytest.approx([each["start"] for each in row["words"]], abs=0.05)
    assert [0, 0.5, 1.5] == pytest.approx([each["end"] for each in row["words"]], abs=0.05)
    assert 0 < row["words"][0]["confidence"] <= 1
    assert 0 < row["confidence"] <= 1
    digests = compute_fingerprint({"t": ("transcribe", stage.stage, None)})
    Path(folder).parent.joinpath("vocab.txt").write_text("changed")
    other = StageRun.__new__(StageRun)
    other.stage = type(stage.stage)(engine="nemo-conformer-ctc", model=model)
    assert compute_fingerprint({"t": ("transcribe", other.stage, None)}) != digests


def test_models_that_can_not_be_loaded_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="`model` must name a folder, except for"):
        StageRun("transcribe", engine="whisper")
    with pytest.raises(ValidationError, match="not a folder with the files of a model"):
        StageRun("transcribe", engine="whisper", model=str(tmp_path))
    (tmp_path / "vocab.txt").write_text("")
    with pytest.raises(ModelError, match="the model can't be loaded as whisper"):
        StageRun("transcribe", engine="whisper", model=str(tmp_path))


def test_tokens_become_words() -> None:
    tokens, times = [" the", " s", "ea", " ", " rises"], [0.1, 0.4, 0.5, 0.8, 0.9]
    words = list(join_tokens(tokens, times, [0.0, -1.0, -3.0, 0.0, -0.5], 3.0))
    assert ["the", "sea", "rises"] == [each.word for each in words]
    assert [0.1, 0.4, 0.9] == [each.start for each in words]
    assert [0.4, 0.8, 1.4] == pytest.approx([each.end for each in words])
    assert np.exp(-2) == pytest.approx(words[1].confidence)
    assert [] == list(join_tokens([], [], [], 1.0))
    assert ["e", "bb"] == [word.word for word in join_tokens(["e", " b", "b"], [0, 1, 2], None, 3)]


def test_clips_longer_than_whisper_hears_are_not_shortened_silently(tmp_path: Path) -> None:
    stage = StageRun("transcribe")
    stage.stage.params = stage.stage.params.model_copy(update={"engine": "whisper"})
    with pytest.raises(UnreadableFileError, match=r"0: 31.0 s are longer than the 30 s"):
        stage.rows(build(make_silence(31, 16_000)))


def test_a_classifier_names_the_language_of_each_clip(tmp_path: Path) -> None:
    model, labels = write_listener(tmp_path)
    stage = StageRun("identify-spoken-language", model=model, labels=labels)
    low, high = (make_tone(-10, 1, 48_000, hertz, 2) for hertz in (100, 3000))
    rows = stage.rows(build(low, high, rate=48_000))
    assert [*LABELS] == [row["language"] for row in rows]
    assert all(0.9 < row["language_probability"] <= 1 for row in rows)
    Path(labels).write_text("one")
    with pytest.raises(ModelError, match=r"the model returns \(1, 2\), but .* has 1 labels"):
        StageRun("identify-spoken-language", model=model, labels=labels)


@pytest.mark.parametrize("codec", ["flac", "opus", "mp3", "aac", "wav"])
@pytest.mark.parametrize("rate", [11_025, 16_000, 44_100])
def test_encoded_clips_have_the_same_sound_and_bytes(codec: str, rate: int) -> None:
    tone = make_tone(-12, 2, rate, 440, 2)
    rows = build(tone, rate=rate)
    (row,) = StageRun("transcode-audio", codec=codec).rows(rows)
    assert row == StageRun("transcode-audio", codec=codec).rows(rows)[0]
    (again,) = StageRun("decode-audio", column="audio", rate=None, channels="keep").rows(
        [{"key": "a", "audio": row["audio"]}]
    )
    sound = decode(again["audio"])
    assert (row["sample_rate"], 2) == (sound.rate, sound.samples.shape[1])
    assert 2 == pytest.approx(sound.seconds, abs=0.15)
    assert 440 == pytest.approx(find_pitch(sound.samples, sound.rate), abs=1)
    middle = sound.samples[sound.rate // 2 : -sound.rate // 2]
    assert 10 ** (-12 / 20) == pytest.approx(np.abs(middle).max(), rel=0.1)
    if codec in {"flac", "wav"}:
        assert row["sample_rate"] == rate
        assert np.array_equal(decode(row["audio"]).samples, decode(rows[0]["audio"]).samples)


def test_codecs_get_the_next_rate_that_they_support() -> None:
    noise = make_noise(-20, 1)
    for codec, rate, expected in (
        ("opus", None, 48_000),
        ("aac", 50_000, 64_000),
        ("mp3", 96_000, 48_000),
    ):
        (row,) = StageRun("transcode-audio", codec=codec, rate=rate).rows(build(noise))
        assert expected == row["sample_rate"]
    with pytest.raises(UnreadableFileError, match="0: mp3 supports 2 channels, not 4"):
        StageRun("transcode-audio", codec="mp3").rows(build(np.repeat(noise, 4, axis=1)))


def test_parquet_has_the_audio_feature_of_datasets(tmp_path: Path) -> None:
    table = StageRun("transcode-audio").table(build(make_tone(-12, 1), rate=48_000))
    assert table is not None
    path = tmp_path / "a.parquet"
    path.write_bytes(StageRun("parquet", features={"audio": "audio"}).written(table))
    features = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path)).features
    assert isinstance(features["audio"], datasets.Audio)
    rows = StageRun("decode-audio", column="audio").rows(
        pa.table({"key": ["a"], "audio": pq.read_table(path)["audio"]})
    )
    assert 1 == rows[0]["duration"]
