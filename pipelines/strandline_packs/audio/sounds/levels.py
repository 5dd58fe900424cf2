"""Measures loudness, noise, clipping, and bandwidth of a sound, and scales the loudness.

Loudness follows EBU R128 (ITU-R BS.1770) as implemented by ffmpeg's filter `ebur128`. Levels are in
decibels relative to full scale. The module takes arrays, returns numbers, and does no I/O.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple

from strandline_packs.audio.sounds.clips import Sound
from strandline_packs.audio.sounds.tracks import LAYOUTS, load_av, start_resampler

_SILENT = -70.0  # absolute gate of EBU R128; the result of ffmpeg for silence
_TALLEST = -1.0  # maximum peak after scaling, in decibels
_OVERSAMPLING = 4  # as BS.1770 requires for true peaks
_FRAME_SECONDS = 0.02
_QUIET_RANK = 0.05  # rank of the frame that represents the noise
_NEAR = 2.0  # frames up to this multiple of the quiet frame's power are noise
# Power of the rounding error of 16-bit samples: the least noise that can be measured.
_ROUNDING = (1 / (1 << 15)) ** 2 / 12
_FLAT_RUN = 3  # successive samples at the peak that count as clipped
_LOUD = 0.25  # quieter peaks do not count: low tones have flat peaks, too
_STEP = 1.5 / (1 << 15)  # samples within this distance of the peak are at the peak
_WINDOW = 1024  # samples of a spectrum
_WINDOWS_AT_ONCE = 256  # bounds the memory for spectra
_FLOOR = 1e-6  # power relative to the strongest frequency: 60 dB below


class SoundMeasures(NamedTuple):
    """Measures that `measure-audio` adds to a clip.

    Attributes:
        loudness: integrated loudness in LUFS; None for silence or less than 0.4 s.
        peak: true peak in dBTP; None for digital silence.
        snr: level of the sound above the noise between sounds, in dB; None without such pauses.
        clipped_share: share of samples in flat runs at the peak.
        silence_share: share of frames of 20 ms below the given level.
        bandwidth: highest frequency in Hz that is at most 60 dB below the strongest one.
    """

    loudness: float | None
    peak: float | None
    snr: float | None
    clipped_share: float
    silence_share: float
    bandwidth: float


def measure_sound(sound: Sound, silence: float) -> SoundMeasures:
    """Measure a sound.

    Args:
        silence: level in dB below which a frame is silent.
    """
    np = import_module("numpy")
    powers = _list_powers(sound)
    return SoundMeasures(
        measure_loudness(sound),
        _to_decibels(_find_true_peak(sound, np) ** 2),
        _measure_noise(powers, np),
        _measure_clipping(sound.samples, np),
        float((powers < 10 ** (silence / 10)).mean()),
        _measure_bandwidth(sound, np),
    )


def measure_loudness(sound: Sound) -> float | None:
    """Return the integrated loudness in LUFS, or None for silence or less than 0.4 seconds."""
    av, np = load_av(), import_module("numpy")
    layout = LAYOUTS[sound.samples.shape[1]]
    shape = {"format": "flt", "layout": layout, "sample_rate": sound.rate}
    graph = av.filter.Graph()
    nodes = [
        graph.add_abuffer(**shape),
        graph.add("ebur128", metadata="1", framelog="quiet"),
        graph.add("abuffersink"),
    ]
    graph.link_nodes(*nodes).configure()
    loudness = _SILENT
    for begin in [*range(0, len(sound.samples), sound.rate), None]:
        if begin is None:
            graph.push(None)
        else:
            block = np.ascontiguousarray(sound.samples[begin : begin + sound.rate])
            frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), "flt", layout)
            frame.sample_rate, frame.pts = sound.rate, begin
            graph.push(frame)
        for each in _pull(graph):
            loudness = float(each.metadata.get("lavfi.r128.I", loudness))
    return loudness if loudness > _SILENT else None


def _pull(graph: Any) -> Any:
    error = load_av().error
    while True:
        try:
            yield graph.pull()
        except (error.BlockingIOError, error.EOFError):
            return


def scale_loudness(sound: Sound, target: float) -> tuple[Sound, bool]:
    """Scale a sound to a loudness in LUFS with peaks below -1 dB. Silence stays unchanged.

    Returns:
        The sound, and whether the peaks limited the gain.
    """
    np = import_module("numpy")
    loudness = measure_loudness(sound)
    peak = _to_decibels(float(np.abs(sound.samples).max()) ** 2)
    if loudness is None or peak is None:
        return sound, False
    gain = min(target - loudness, _TALLEST - peak)
    factor = np.float32(10 ** (gain / 20))
    return Sound(sound.samples * factor, sound.rate), gain < target - loudness


def _to_decibels(power: float) -> float | None:
    return 10 * math.log10(power) if power > 0 else None


def _list_powers(sound: Sound) -> Any:
    """Return the mean power of all frames of 20 ms. A shorter sound is a single frame."""
    power = (sound.samples.astype("float64") ** 2).mean(1)
    size = min(len(power), max(1, round(sound.rate * _FRAME_SECONDS)))
    return power[: len(power) // size * size].reshape(-1, size).mean(1)


def _find_true_peak(sound: Sound, np: Any) -> float:
    """Return the highest absolute value between samples, too: the sound oversampled four times."""
    channels = sound.samples.shape[1]
    resampler = start_resampler(sound.rate, sound.rate * _OVERSAMPLING, channels)
    peak = float(np.abs(sound.samples).max())
    starts = range(0, len(sound.samples), sound.rate)
    for begin in starts:
        block = sound.samples[begin : begin + sound.rate]
        raised = resampler.resample_chunk(block, last=begin == starts[-1])
        peak = max(peak, float(np.abs(raised).max(initial=0)))
    return peak


def _measure_noise(powers: Any, np: Any) -> float | None:
    """Compare frames with sound with the frames between them, whose power is nearly equal."""
    quiet = np.sort(powers)[int(len(powers) * _QUIET_RANK)]
    is_noise = powers <= max(quiet, _ROUNDING) * _NEAR
    if is_noise.all():
        return None
    noise = max(float(powers[is_noise].mean()), _ROUNDING)
    return 10 * math.log10(max(float(powers[~is_noise].mean()) - noise, _ROUNDING) / noise)


def _measure_clipping(samples: Any, np: Any) -> float:
    """Return the share of samples in flat runs at the highest or lowest level of a channel."""
    flat = 0
    for channel in samples.T:
        for side in (channel, -channel):
            top = float(side.max())
            if top < _LOUD:
                continue
            is_top = side >= top - _STEP
            # Starts and ends of runs are where neighbors differ.
            edges = np.flatnonzero(np.diff(np.concatenate(([False], is_top, [False]))))
            lengths = edges[1::2] - edges[::2]
            flat += int(lengths[lengths >= _FLAT_RUN].sum())
    return float(flat / samples.size)


def _measure_bandwidth(sound: Sound, np: Any) -> float:
    """Return the highest frequency that is not far below the strongest, from mean spectra."""
    samples, step = sound.samples, _WINDOW // 2
    if len(samples) < _WINDOW:
        samples = np.concatenate([samples, np.zeros((_WINDOW - len(samples), samples.shape[1]))])
    shape, total = np.hanning(_WINDOW)[:, None], np.zeros(step + 1)
    starts = np.arange(0, len(samples) - _WINDOW + 1, step)
    for at in range(0, len(starts), _WINDOWS_AT_ONCE):
        some = starts[at : at + _WINDOWS_AT_ONCE, None] + np.arange(_WINDOW)
        spectra = np.fft.rfft(samples[some] * shape, axis=1)
        total += (np.abs(spectra) ** 2).sum((0, 2))
    total[0] = total[1] = 0  # a constant offset is no sound, and the window spreads it
    if not total.any():
        return 0.0
    return float(np.flatnonzero(total >= total.max() * _FLOOR)[-1] * sound.rate / _WINDOW)
