"""The stage `transcode-audio`: encodes each clip as a FLAC, Opus, MP3, AAC, or WAV file.

Encoders run on one thread and write neither times nor library versions: with the same libraries, a
clip always gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.audio.clip_stages import ClipParams, ClipStage
from strandline_packs.audio.sounds.clips import Sound, pack_wave, resample
from strandline_packs.audio.sounds.tracks import LAYOUTS, load_av

# Omit the time, the writer, and random identifiers from files, so that bytes are stable.
_EXACT = {"fflags": "+bitexact"}
_FULL = 1 << 15


class AudioCodec(StrEnum):
    """The codec of encoded clips."""

    FLAC = "flac"
    OPUS = "opus"
    MP3 = "mp3"
    AAC = "aac"
    WAV = "wav"


class _Encoder(NamedTuple):
    """An encoder of ffmpeg, its container, and its sample rates and channels; empty for any.

    Decoders return 48 kHz for Opus, whatever the rate of the encoder.
    """

    name: str
    container: str
    rates: tuple[int, ...] = ()
    most_channels: int = 8


_MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_ENCODERS = {
    AudioCodec.FLAC: _Encoder("flac", "flac"),
    AudioCodec.OPUS: _Encoder("libopus", "ogg", (48_000,)),
    AudioCodec.MP3: _Encoder("libmp3lame", "mp3", _MP3_RATES, 2),
    AudioCodec.AAC: _Encoder("aac", "ipod", (*_MP3_RATES, 64_000, 88_200, 96_000)),
}
_LOSSLESS = {AudioCodec.FLAC, AudioCodec.WAV}


class TranscodeAudio(ClipStage):
    """Encodes each clip of `audio` in another format."""

    class Params(ClipParams):
        """Configures the codec, and its bit rate."""

        codec: AudioCodec = Field(
            default=AudioCodec.FLAC,
            description="Codec of the files. `flac` and `wav` keep every 16-bit sample; `opus` is "
            "in Ogg, `aac` in M4A. Rates that a codec lacks are raised to its next one.",
        )
        kilobits: int = Field(
            default=64, ge=8, le=512, description="Bit rate of lossy codecs, in kbit/s."
        )
        rate: int | None = Field(
            default=None,
            ge=4_000,
            le=192_000,
            description="Sample rate in hertz; null keeps the rate of each clip.",
        )

    params: Params

    def list_kinds(self) -> Mapping[str, pa.DataType]:
        audio = self.params.column.partition(".")[0]
        return {audio: pa.binary(), "codec": pa.string(), "sample_rate": pa.int32()}

    def work(self, sound: Sound, name: str) -> Sequence[Any]:
        """Encode a clip.

        Raises:
            UnreadableFileError: the codec does not support the clip.
        """
        codec = self.params.codec
        rate = self._choose_rate(sound.rate)
        changed = resample(sound, rate)
        content = pack_wave(changed) if codec is AudioCodec.WAV else self._encode(changed, name)
        return content, codec.value, rate

    def _choose_rate(self, rate: int) -> int:
        wanted = self.params.rate or rate
        encoder = _ENCODERS.get(self.params.codec)
        if encoder is None or not encoder.rates:
            return wanted
        return min((each for each in encoder.rates if each >= wanted), default=max(encoder.rates))

    def _encode(self, sound: Sound, name: str) -> bytes:
        av, codec, target = load_av(), self.params.codec, io.BytesIO()
        encoder, channels = _ENCODERS[codec], sound.samples.shape[1]
        if channels > encoder.most_channels:
            msg = f"{name}: {codec.value} supports {encoder.most_channels} channels, not {channels}"
            raise UnreadableFileError(msg)
        with av.open(target, "w", format=encoder.container, options=_EXACT) as file:
            stream = file.add_stream(encoder.name, rate=sound.rate, layout=LAYOUTS[channels])
            stream.codec_context.flags |= av.codec.context.Flags.bitexact
            stream.codec_context.thread_count = 1
            if codec not in _LOSSLESS:
                stream.bit_rate = self.params.kilobits * 1000
            for frame in (*_list_frames(sound), None):
                file.mux(stream.encode(frame))
        return target.getvalue()


def _list_frames(sound: Sound) -> list[Any]:
    """Return the sound as 16-bit frames of a second."""
    av, np = load_av(), import_module("numpy")
    levels = np.clip(np.rint(sound.samples * _FULL), -_FULL, _FULL - 1).astype("int16")
    frames = []
    for begin in range(0, len(levels), sound.rate):
        block = np.ascontiguousarray(levels[begin : begin + sound.rate]).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(block, "s16", LAYOUTS[levels.shape[1]])
        frame.sample_rate, frame.pts = sound.rate, begin
        frame.time_base = Fraction(1, sound.rate)
        frames.append(frame)
    return frames
