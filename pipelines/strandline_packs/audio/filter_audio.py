"""The stage `filter-audio`: keeps clips within limits, and gathers waveforms of dropped clips.

The waveforms help users to judge the limits.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import list_strings
from strandline_packs.audio.clip_stages import find_contents
from strandline_packs.audio.sounds.clips import Sound, load_clip
from strandline_packs.images.pictures import Picture
from strandline_packs.images.samples import SampledClip, choose_clip, draw_jpeg, rank_clip
from strandline_packs.video.filter_video import FilterVideo

_DEFAULT: dict[str, tuple[float | None, float | None]] = {
    "snr": (10, None),
    "clipped_share": (None, 0.001),
    "silence_share": (None, 0.5),
}
_WIDTH, _HEIGHT = 120, 48  # size of a waveform in pixels


class FilterAudio(FilterVideo):
    """Keeps rows whose measures are within limits.

    A dropped row counts under the first broken limit. The stage gathers the number of kept and
    dropped clips by reason, with waveforms of some clips.
    """

    class Params(FilterVideo.Params):
        """Configures the limits, and whether to gather waveforms."""

        bounds: dict[str, tuple[float | None, float | None]] = Field(
            default=_DEFAULT,
            min_length=1,
            description="Minimum and maximum of columns of numbers, in the order in which they are "
            "checked; null means no bound. Rows without a value are dropped.",
        )
        pictures: bool = Field(
            default=False,
            description="Gather waveforms of up to 8 kept clips, and as many for each reason to "
            "drop. They take some kilobytes per task, and the report shows them.",
        )
        column: str = Field(
            default="audio", min_length=1, description="Column with the clips of the waveforms."
        )

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        shown = ("clip", self.params.column) if self.params.pictures else ()
        return (*self.params.bounds, *shown)

    def _show(self, table: pa.Table) -> SampledClip:  # type: ignore[override]  # it needs `column`
        names = list_strings(table, "clip")
        at = choose_clip(names)
        content = find_contents(table, self.params.column)[at].as_py()
        try:
            pictures = [draw_wave(load_clip(content, names[at]))]
        except UnreadableFileError:
            pictures = []  # a clip without a waveform is counted nevertheless
        return SampledClip(rank_clip(names[at]), names[at], draw_jpeg(pictures))


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
