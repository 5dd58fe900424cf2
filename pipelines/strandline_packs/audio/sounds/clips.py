"""Packs sounds as WAV files of 16-bit samples, and loads clips of any format.

A clip is a row of a table with the bytes of an audio file. The module must not depend on stages.
"""

from __future__ import annotations

import io
import wave
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.audio.sounds.tracks import (
    LAYOUTS,
    RATES,
    SoundReading,
    open_sound,
    start_resampler,
)

CLIP_KINDS: dict[str, pa.DataType] = {
    "clip": pa.string(),
    "start": pa.float64(),
    "end": pa.float64(),
    "duration": pa.float64(),
    "sample_rate": pa.int32(),
    "channels": pa.int32(),
    "codec": pa.string(),
    "audio": pa.binary(),
}

_FULL = 1 << 15
_WIDTH = 2  # bytes of a 16-bit sample


class Sound(NamedTuple):
    """Samples × channels, as 32-bit floats from -1 to 1, and their rate in hertz."""

    samples: Any
    rate: int

    @property
    def seconds(self) -> float:
        """The length."""
        return len(self.samples) / self.rate

    def average(self) -> Any:
        """Return the mean of all channels, an array of samples."""
        return self.samples.mean(1)


def pack_wave(sound: Sound) -> bytes:
    """Return a WAV file of 16-bit samples. Samples beyond full scale are clipped."""
    np, file = import_module("numpy"), io.BytesIO()
    levels = np.clip(np.rint(sound.samples * _FULL), -_FULL, _FULL - 1).astype("<i2")
    with wave.open(file, "wb") as writer:
        writer.setnchannels(levels.shape[1])
        writer.setsampwidth(_WIDTH)
        writer.setframerate(sound.rate)
        writer.writeframes(levels.tobytes())
    return file.getvalue()


def load_clip(content: bytes | None, name: str) -> Sound:
    """Decode a whole clip, at its own rate and with all channels.

    Raises:
        UnreadableFileError: the content is not readable audio.
    """
    np = import_module("numpy")
    if content and (sound := _load_wave(content, np)):
        return sound
    with open_sound(name, content or b"") as container:
        reading = SoundReading(container, name, None, is_mono=False)
        blocks = list(reading.read())
        reading.check_end()
    if reading.damaged:
        msg = f"{name}: {reading.damaged} packets of the sound can't be decoded"
        raise UnreadableFileError(msg)
    return Sound(np.concatenate(blocks), reading.rate)


def _load_wave(content: bytes, np: Any) -> Sound | None:
    """Return the sound of a plain 16-bit WAV file, as written by this pack, or None for others."""
    try:
        with wave.open(io.BytesIO(content)) as reader:
            shape = (reader.getnframes(), reader.getnchannels())
            data, rate = reader.readframes(shape[0]), reader.getframerate()
            width = reader.getsampwidth()
    except (wave.Error, EOFError, RuntimeError):  # the last for a chunk beyond the end
        return None
    is_plain = width == _WIDTH and shape[1] in LAYOUTS and rate in RATES
    # PyAV reports the fault of other files.
    if not is_plain or not data or len(data) != shape[0] * shape[1] * _WIDTH:
        return None
    return Sound(np.frombuffer(data, "<i2").reshape(shape).astype("float32") / _FULL, rate)


def resample(sound: Sound, rate: int) -> Sound:
    """Return the sound at another rate."""
    if sound.rate == rate:
        return sound
    resampler = start_resampler(sound.rate, rate, sound.samples.shape[1])
    return Sound(resampler.resample_chunk(sound.samples, last=True), rate)
