"""The interface of speech recognisers. The module must not depend on a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

RATE = 16_000  # sample rate of recognisers, in hertz


class SpokenWord(NamedTuple):
    """A word, the time in the clip in seconds, and the probability or None."""

    word: str
    start: float
    end: float
    confidence: float | None


class Transcript(NamedTuple):
    """The text of a clip, the words if the model gives times, and the confidence from 0 to 1."""

    text: str
    words: Sequence[SpokenWord] | None
    confidence: float | None


class Recogniser(Protocol):
    """A loaded model for speech."""

    def transcribe(self, samples: Any) -> Transcript:
        """Return the transcript of a clip: 32-bit floats of one channel at 16 kHz."""
