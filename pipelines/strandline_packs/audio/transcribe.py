"""The stage `transcribe`: adds the text of spoken clips, with times and confidence of words.

The user provides the model, which is a folder with ONNX files. PocketSphinx needs no folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.globs import expand_placeholder, is_url
from strandline.data.files.opening import UnreadableFileError, digest_input
from strandline_packs.audio.clip_stages import PACKAGES, ClipParams, ClipStage
from strandline_packs.audio.recognisers.onnx_models import WHISPERS, OnnxRecogniser, SpeechEngine
from strandline_packs.audio.recognisers.sphinx import SphinxRecogniser
from strandline_packs.audio.recognisers.transcripts import RATE, Recogniser
from strandline_packs.audio.sounds.clips import Sound, resample
from strandline_packs.models.onnx_sessions import SessionParams, choose_provider

_WORD = pa.struct(
    [
        ("word", pa.string()),
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("confidence", pa.float64()),
    ]
)
_WHISPER_SECONDS = 30  # Whisper ignores the sound after them


class Transcribe(ClipStage):
    """Adds `text`, `words` with times and confidence, and `confidence` of each clip."""

    class Params(ClipParams, SessionParams):
        """Configures the recogniser."""

        engine: SpeechEngine = Field(
            default=SpeechEngine.POCKETSPHINX,
            description="`pocketsphinx` has a small English model, for trials. The others are "
            "architectures of ONNX models, run by onnx-asr. `whisper` and `whisper-ort` give "
            "neither word times nor confidence, and take clips of up to 30 s.",
        )
        model: str | None = Field(
            default=None,
            min_length=1,
            description="Folder with the ONNX model, its vocabulary, and `config.json`, on a disk "
            "of the workers. The content of its files is part of the fingerprint.",
        )
        quantisation: str | None = Field(
            default=None,
            min_length=1,
            description="Suffix of the files of a quantised model, such as `int8`.",
        )
        language: str | None = Field(
            default=None,
            min_length=2,
            description="Code of the spoken language, such as `en`, for models of several "
            "languages; by default the model detects it.",
        )
        _digests: dict[str, str] = PrivateAttr(default_factory=dict)

        @model_validator(mode="after")
        def _digest_files(self) -> Self:
            if (self.engine is SpeechEngine.POCKETSPHINX) == (self.model is not None):
                msg = "`model` must name a folder, except for `engine: pocketsphinx`, which has one"
                raise ValueError(msg)
            if self.model is not None:
                self._digests = _digest_folder(self.model)
            return self

        @property
        def digests(self) -> dict[str, str]:
            """Digests of the files of the model at planning time, by name."""
            return dict(self._digests)

    params: Params
    not_fingerprinted = frozenset({"device", "threads"})

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """Return the modules that the chosen engine needs."""
        if self.params.engine is SpeechEngine.POCKETSPHINX:
            return (*PACKAGES, "pocketsphinx")
        return (*PACKAGES, "onnx_asr", "onnxruntime")

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the model's files."""
        return self.params.digests

    def list_kinds(self) -> Mapping[str, pa.DataType]:
        return {"text": pa.string(), "words": pa.list_(_WORD), "confidence": pa.float64()}

    def setup(self) -> None:
        """Load the recogniser.

        Raises:
            ImportError: the library of the engine is not installed.
            ModelError: the model can't be loaded.
        """
        super().setup()
        self._recogniser = self._load()

    def work(self, sound: Sound, name: str) -> Sequence[Any]:
        """Transcribe a clip.

        Raises:
            UnreadableFileError: the clip is too long for the model.
        """
        if self.params.engine in WHISPERS and sound.seconds > _WHISPER_SECONDS:
            msg = (
                f"{name}: {sound.seconds:.1f} s are longer than the {_WHISPER_SECONDS} s that "
                "Whisper hears; set `maxSeconds: 30` in `split-speech` or `decode-audio`"
            )
            raise UnreadableFileError(msg)
        mono = resample(Sound(sound.samples.mean(1, keepdims=True), sound.rate), RATE)
        transcript = self._recogniser.transcribe(mono.samples[:, 0])
        words = transcript.words
        rows = None if words is None else [each._asdict() for each in words]
        return transcript.text, rows, transcript.confidence

    def _load(self) -> Recogniser:
        params = self.params
        if params.model is None:
            return SphinxRecogniser()
        available = import_module("onnxruntime").get_available_providers()
        return OnnxRecogniser(
            params.engine,
            Path(expand_placeholder(params.model)),
            params.quantisation,
            params.language,
            choose_provider(params.device, available, os.environ),
            threads=params.threads,
        )


def _digest_folder(path: str) -> dict[str, str]:
    """Return the digest of each file in a folder, by its path in the folder.

    Raises:
        ValueError: the path is not a local folder with files, or a file can't be read.
    """
    folder = Path(expand_placeholder(path))
    files = [] if is_url(path) else sorted(each for each in folder.rglob("*") if each.is_file())
    if not files:
        msg = f"{path}: not a folder with the files of a model on this machine"
        raise ValueError(msg)
    return {str(each.relative_to(folder)): digest_input(str(each)) for each in files}
