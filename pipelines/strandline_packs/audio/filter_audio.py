"""The stage `filter-audio`: keeps clips within limits, and gathers sounds of dropped clips.

Waveforms and sounds help users to judge the limits.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.audio.clip_stages import find_contents
from strandline_packs.audio.sounds.clips import Sound, load_clip, resample
from strandline_packs.audio.sounds.encoding import AudioCodec, encode_sound
from strandline_packs.images.pictures import Picture
from strandline_packs.images.sampling.limits_filter import BOUNDS_HELP, Bounds, LimitsFilter
from strandline_packs.images.sampling.samples import (
    SHOWN,
    SampledClip,
    draw_jpeg,
    rank_clip,
)

_DEFAULT: Bounds = {
    "snr": (10, None),
    "clipped_share": (None, 0.001),
    "silence_share": (None, 0.5),
}
_WIDTH, _HEIGHT = 120, 48  # size of a waveform in pixels
_RATE, _SECONDS, _KILOBITS = 16_000, 5, 24  # of played sounds


class FilterAudio(LimitsFilter):
    """Keeps rows whose measures are within limits.

    A dropped row counts under the first broken limit. The stage gathers the number of kept and
    dropped clips by reason, with waveforms and sounds of some clips.
    """

    class Params(LimitsFilter.Params):
        """Configures the limits, and whether to gather waveforms and sounds."""

        bounds: Bounds = Field(default=_DEFAULT, min_length=1, description=BOUNDS_HELP)
        pictures: bool = Field(
            default=False,
            description=f"Gather waveforms and the first {_SECONDS} seconds of up to {SHOWN} kept "
            "clips, and as many for each reason to drop. They take some kilobytes per task, and "
            "the report shows and plays them.",
        )
        column: str = Field(
            default="audio", min_length=1, description="Column with the clips of the waveforms."
        )

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        shown = ("clip", self.params.column) if self.params.pictures else ()
        return (*self.params.bounds, *shown)

    def show_clip(self, table: pa.Table, name: str) -> SampledClip:
        content = find_contents(table, self.params.column)[0].as_py()
        try:
            sound = load_clip(content, name)
        except UnreadableFileError:  # a clip that can't be decoded is counted nevertheless
            return SampledClip(rank_clip(name), name)
        picture, mp3 = draw_jpeg([draw_wave(sound)]), encode_beginning(sound, name)
        return SampledClip(rank_clip(name), name, picture, mp3)


def encode_beginning(sound: Sound, name: str) -> bytes:
    """Return the first seconds as a small MP3 file with one channel, which browsers play."""
    beginning = sound.average()[: _SECONDS * sound.rate, None]
    mono = resample(Sound(beginning, sound.rate), _RATE)
    return encode_sound(mono, AudioCodec.MP3, _KILOBITS, name)


def draw_wave(sound: Sound) -> Picture:
    """Draw the range of levels over time, dark on white; full scale is the whole height."""
    np = import_module("numpy")
    samples = np.clip(sound.average(), -1, 1)
    pieces: list[Any] = np.array_split(samples, min(_WIDTH, len(samples)))
    rows = np.arange(_HEIGHT)[:, None]
    # The first row is the highest level.
    top = [round((1 - float(each.max())) / 2 * (_HEIGHT - 1)) for each in pieces]
    bottom = [round((1 - float(each.min())) / 2 * (_HEIGHT - 1)) for each in pieces]
    is_dark = (rows >= np.array(top)) & (rows <= np.array(bottom))
    pixels = np.where(is_dark[:, :, None], 64, 255).astype("uint8").repeat(3, axis=2)
    return {"width": len(pieces), "height": _HEIGHT, "rgb": pixels.tobytes()}
