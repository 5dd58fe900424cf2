"""Runs PocketSphinx, which includes a small model for English.

The module is for tests and for machines without another model: errors are frequent.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from strandline.plan.packages import load_module
from strandline_packs.audio.recognisers.transcripts import RATE, SpokenWord, Transcript

_FULL = (1 << 15) - 1
_FRAMES_A_SECOND = 100
# Deviation of added noise, 64 dB below full scale: the model was trained on recordings, and
# mistakes the digital silence of synthesizers for sounds.
_NOISE = 20
# Limits of the search per frame, which halve its time.
_BEAMS = {"maxhmmpf": 3000, "maxwpf": 10}
_NO_WORD = re.compile(r"<.*>|\[.*\]")  # silence and noise
_VARIANT = re.compile(r"\(\d+\)$")  # number of a pronunciation


class SphinxRecogniser:
    """PocketSphinx with the English model of the package."""

    def __init__(self) -> None:
        # `cmn=batch` normalises each clip alone. The default adapts to earlier clips, so results
        # would depend on the order.
        self._decoder = load_module("pocketsphinx").Decoder(
            samprate=RATE, cmn="batch", loglevel="FATAL", **_BEAMS
        )

    def transcribe(self, samples: Any) -> Transcript:
        """Return the transcript of a clip."""
        np, decoder = import_module("numpy"), self._decoder
        # The same noise for each clip: its transcript depends on nothing else.
        noise = np.random.default_rng(0).normal(0, _NOISE, len(samples))
        levels = np.clip(np.rint(samples * _FULL + noise), -_FULL, _FULL).astype("<i2")
        decoder.reinit_feat()  # earlier clips have adapted the normalisation
        decoder.start_utt()
        decoder.process_raw(levels.tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        if hypothesis is None:
            return Transcript("", (), None)
        words = [_describe(each) for each in decoder.seg() if not _NO_WORD.match(each.word)]
        confidences = [word.confidence for word in words if word.confidence is not None]
        mean = sum(confidences) / len(confidences) if confidences else None
        return Transcript(" ".join(word.word for word in words), words, mean)


def _describe(segment: Any) -> SpokenWord:
    # The end frame is the last frame of the word.
    start, end = segment.start_frame, segment.end_frame + 1
    word = _VARIANT.sub("", segment.word)
    times = (start / _FRAMES_A_SECOND, end / _FRAMES_A_SECOND)
    return SpokenWord(word, *times, min(1.0, segment.prob))
