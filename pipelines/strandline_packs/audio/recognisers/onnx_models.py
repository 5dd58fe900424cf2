"""Runs speech models in ONNX files through onnx-asr: Whisper, NeMo, Zipformer, and Wav2Vec2.

The module handles files and tokens. Nothing is downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from strandline.plan.packages import load_module
from strandline_packs.audio.recognisers.transcripts import RATE, SpokenWord, Transcript
from strandline_packs.models.model_files import ModelError

_LONGEST_TOKEN = 0.5  # most seconds between the start of the last token and the end of a word


class SpeechEngine(StrEnum):
    """The recogniser: PocketSphinx, or the architecture of an ONNX model."""

    POCKETSPHINX = "pocketsphinx"
    WHISPER = "whisper"
    WHISPER_ORT = "whisper-ort"
    NEMO_CTC = "nemo-conformer-ctc"
    NEMO_RNNT = "nemo-conformer-rnnt"
    NEMO_TDT = "nemo-conformer-tdt"
    NEMO_AED = "nemo-conformer-aed"
    KALDI_RNNT = "kaldi-rnnt"
    WAV2VEC2_CTC = "wav2vec2-ctc"


WHISPERS = {SpeechEngine.WHISPER, SpeechEngine.WHISPER_ORT}


class OnnxRecogniser:
    """A model in a folder.

    Args:
        engine: architecture of the model.
        folder: folder with the files, as onnx-asr expects.
        quantisation: suffix of the files of a quantised model, for example `int8`, or None.
        language: code of the language; None for the model's own choice.
        provider: ONNX Runtime's provider.
        threads: threads on the CPU.

    Raises:
        ModelError: the model can't be loaded.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        folder: Path,
        quantisation: str | None,
        language: str | None,
        provider: str,
        *,
        threads: int,
    ) -> None:
        options = import_module("onnxruntime").SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.use_deterministic_compute = True
        options.log_severity_level = 3  # errors only
        self._options = {"language": language} if language else {}
        try:
            model = load_module("onnx_asr").load_model(
                engine.value,
                folder,
                quantization=quantisation,
                sess_options=options,
                providers=[provider],
            )
        except ImportError:
            raise
        except Exception as error:  # the library and ONNX Runtime have many classes of errors
            msg = f"{folder}: the model can't be loaded as {engine.value} ({error})"
            raise ModelError(msg) from error
        self._model = model.with_timestamps()

    def transcribe(self, samples: Any) -> Transcript:
        """Return the transcript of a clip."""
        result = self._model.recognize(samples, sample_rate=RATE, **self._options)
        tokens, times, logs = result.tokens, result.timestamps, result.logprobs
        confidence = math.exp(sum(logs) / len(logs)) if logs else None
        if tokens is None or times is None:  # Whisper's tokens have no times
            return Transcript(result.text, None, confidence)
        words = list(join_tokens(tokens, times, logs, len(samples) / RATE))
        return Transcript(result.text, words, confidence)


def join_tokens(
    tokens: Sequence[str], times: Sequence[float], logs: Sequence[float] | None, seconds: float
) -> Iterator[SpokenWord]:
    """Yield words of tokens. A token that begins with a space starts a word.

    A word ends where the next word begins, but at most half a second after the last token begins.
    The confidence is the geometric mean of the tokens' probabilities.

    Args:
        times: starts of the tokens in seconds.
        logs: logarithms of the tokens' probabilities, or None.
        seconds: length of the sound.
    """
    starts = [at for at, token in enumerate(tokens) if token.startswith(" ") or not at]
    for begin, end in pairwise([*starts, len(tokens)]):
        word = "".join(tokens[begin:end]).strip()
        if not word:  # a space alone
            continue
        latest = times[end] if end < len(tokens) else seconds
        stop = max(times[begin], min(latest, times[end - 1] + _LONGEST_TOKEN))
        mean = None if logs is None else math.exp(sum(logs[begin:end]) / (end - begin))
        yield SpokenWord(word, times[begin], stop, mean)
