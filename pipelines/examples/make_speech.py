"""Generates the recordings of `audio.yaml`: spoken sentences, noise, silence, and broken files.

python pipelines/examples/make_speech.py FOLDER [--minutes 5]

The program needs strandline[audio] and espeakng-loader, which contains the synthesizer eSpeak NG.
The same arguments give the same sound.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import espeakng_loader
import numpy as np
import numpy.typing as npt

Wave = npt.NDArray[np.float32]

RATE = 22_050  # of eSpeak NG, in hertz
QUIET = 0.001  # level below which speech pauses
PAUSE = 1.0  # seconds between two sentences
SENTENCES = (
    "the man went down to the water to look at the boats",
    "she said that there would be a great storm in the night",
    "we have seen three white houses on the other side of the river",
    "he had been at sea for more than twenty years",
    "the children were playing in the garden behind the school",
    "nobody knows what happened to the old captain after the war",
)
# Sentences of each recording, by number, and the signal-to-noise ratio in dB, if noise is added.
RECORDINGS: Mapping[str, tuple[Sequence[int], float | None]] = {
    "harbour.flac": ((0, 1, 2), None),
    "garden.mp3": ((3, 4), None),
    "radio.m4a": ((5, 0), 3.0),
}

_SYNCHRONOUS, _CHARACTERS, _UTF8 = 2, 1, 1  # constants of eSpeak NG
_CODECS = {".flac": "flac", ".mp3": "libmp3lame", ".m4a": "aac", ".wav": "pcm_s16le"}
_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


@cache
def _load_espeak() -> ctypes.CDLL:
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(
        _SYNCHRONOUS, 0, str(espeakng_loader.get_data_path()).encode(), 0
    )
    if rate != RATE:
        msg = f"eSpeak NG returned {rate}, not its rate of {RATE} Hz"
        raise RuntimeError(msg)
    return library


def speak(text: str, voice: str = "en-us") -> Wave:
    """Return a spoken text: floats from -1 to 1 at `RATE`."""
    library, pieces = _load_espeak(), list[npt.NDArray[np.int16]]()

    def hear(samples: ctypes.Array[ctypes.c_short], count: int, _events: object) -> int:
        if samples and count:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    callback = _Callback(hear)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetVoiceByName(voice.encode())
    data = text.encode()
    library.espeak_Synth(data, len(data) + 1, 0, _CHARACTERS, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    wave: Wave = np.concatenate(pieces).astype(np.float32) / np.float32(1 << 15)
    return wave


def join_sentences(texts: Sequence[str], pause: float = PAUSE) -> Wave:
    """Return spoken texts with a pause before, between, and after them."""
    silence = np.zeros(round(pause * RATE), "float32")
    return np.concatenate([silence, *(part for text in texts for part in (speak(text), silence))])


def add_noise(wave: Wave, ratio: float, seed: int = 0) -> Wave:
    """Add white noise that is `ratio` dB below the mean power of the parts with sound."""
    power = float((wave[np.abs(wave) > QUIET] ** 2).mean())
    noise = np.random.default_rng(seed).normal(0, (power / 10 ** (ratio / 10)) ** 0.5, len(wave))
    noisy: Wave = (wave + noise).astype("float32")
    return noisy


def write_sound(path: Path, wave: Wave, rate: int = RATE) -> Path:
    """Encode one channel by the suffix of the path. Return the path."""
    codec = _CODECS[path.suffix]
    levels = (np.clip(wave, -1, 1) * ((1 << 15) - 1)).astype(np.int16)
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as file:
        stream: Any = file.add_stream(codec, rate=rate, layout="mono")
        resampler = av.AudioResampler(stream.codec_context.format, "mono", rate)
        for begin in range(0, len(levels), rate):
            frame = av.AudioFrame.from_ndarray(levels[None, begin : begin + rate], "s16", "mono")
            frame.sample_rate, frame.pts, frame.time_base = rate, begin, Fraction(1, rate)
            for each in resampler.resample(frame):
                file.mux(stream.encode(each))
        for each in resampler.resample(None):
            file.mux(stream.encode(each))
        file.mux(stream.encode(None))
    return path


def write_all(folder: Path, minutes: float = 0) -> list[Path]:
    """Write the recordings, silence, a tone, a long recording, and two broken files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (numbers, ratio) in RECORDINGS.items():
        wave = join_sentences([SENTENCES[number] for number in numbers])
        paths.append(write_sound(folder / name, add_noise(wave, ratio) if ratio else wave))
    at = np.arange(5 * RATE) / RATE
    tone = (0.2 * np.sin(2 * np.pi * 440 * at)).astype("float32")
    paths += [
        write_sound(folder / "tone.wav", tone),
        write_sound(folder / "silence.flac", np.zeros(5 * RATE, "float32")),
    ]
    truncated = folder / "truncated.flac"
    whole = (folder / "harbour.flac").read_bytes()
    truncated.write_bytes(whole[: len(whole) * 6 // 10])
    broken = folder / "broken.mp3"
    broken.write_bytes(np.random.default_rng(0).bytes(5000))
    if minutes:
        once = join_sentences(SENTENCES)
        times = max(1, round(minutes * 60 * RATE / len(once)))
        paths.append(write_sound(folder / "long.flac", np.tile(once, times)))
    return [*paths, truncated, broken]


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(
        description="Speaks the recordings of pipelines/examples/audio.yaml."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=0, help="of a further, long recording")
    options = parser.parse_args(words)
    write_all(options.folder, options.minutes)


if __name__ == "__main__":
    main()
