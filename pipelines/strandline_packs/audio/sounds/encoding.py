"""Encodes sounds as FLAC, Opus, MP3, AAC, or WAV files.

Encoders run on one thread and write neither times nor library versions: with the same libraries, a
sound always gives the same bytes.
"""

from __future__ import annotations

import io
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.audio.sounds.clips import Sound, pack_wave
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


def choose_rate(codec: AudioCodec, rate: int) -> int:
    """Return the next sample rate that a codec supports, in hertz."""
    encoder = _ENCODERS.get(codec)
    if encoder is None or not encoder.rates:
        return rate
    return min((each for each in encoder.rates if each >= rate), default=max(encoder.rates))


def encode_sound(sound: Sound, codec: AudioCodec, kilobits: int, name: str) -> bytes:
    """Encode a sound whose rate the codec supports.

    Args:
        kilobits: bit rate of lossy codecs, in kbit/s.

    Raises:
        UnreadableFileError: the codec does not support the number of channels.
    """
    if codec is AudioCodec.WAV:
        return pack_wave(sound)
    av, target = load_av(), io.BytesIO()
    encoder, channels = _ENCODERS[codec], sound.samples.shape[1]
    if channels > encoder.most_channels:
        msg = f"{name}: {codec.value} supports {encoder.most_channels} channels, not {channels}"
        raise UnreadableFileError(msg)
    with av.open(target, "w", format=encoder.container, options=_EXACT) as file:
        stream = file.add_stream(encoder.name, rate=sound.rate, layout=LAYOUTS[channels])
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        stream.codec_context.thread_count = 1
        if codec not in _LOSSLESS:
            stream.bit_rate = kilobits * 1000
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
