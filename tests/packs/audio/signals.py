"""Signals of known level, noise, and length, written by libsndfile instead of the product."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from strandline_packs.audio.sounds.clips import Sound

Samples = npt.NDArray[np.float32]


def make_tone(
    level: float, seconds: float, rate: int = 48_000, hertz: float = 1000, channels: int = 1
) -> Samples:
    """Return a sine whose peaks are at a level in dB of full scale: samples × channels."""
    at = np.arange(round(seconds * rate)) / rate
    wave = 10 ** (level / 20) * np.sin(2 * np.pi * hertz * at)
    return np.repeat(wave.astype("float32")[:, None], channels, axis=1)


def make_noise(level: float, seconds: float, rate: int = 16_000, seed: int = 0) -> Samples:
    """Return white noise with a power in dB of full scale: samples × 1 channel."""
    dice = np.random.default_rng(seed)
    return dice.normal(0, 10 ** (level / 20), (round(seconds * rate), 1)).astype("float32")


def make_silence(seconds: float, rate: int = 48_000, channels: int = 1) -> Samples:
    return np.zeros((round(seconds * rate), channels), "float32")


def encode(samples: Samples, rate: int, kind: str = "WAV", subtype: str | None = None) -> bytes:
    """Return a file of libsndfile."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype=subtype, format=kind)
    return file.getvalue()


def decode(content: bytes) -> Sound:
    """Read a file with libsndfile."""
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    return Sound(samples, rate)


def find_pitch(samples: Any, rate: int) -> float:
    """Return the strongest frequency of the first channel in hertz."""
    spectrum = np.abs(np.fft.rfft(samples[:, 0] * np.hanning(len(samples))))
    return float(spectrum.argmax() * rate / len(samples))
