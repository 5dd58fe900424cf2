"""The stage `filter-video`: keeps clips within limits, and gathers pictures of dropped clips."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column
from strandline_packs.images.sampling.limits_filter import BOUNDS_HELP, Bounds, LimitsFilter
from strandline_packs.images.sampling.samples import (
    SHOWN,
    SampledClip,
    draw_jpeg,
    rank_clip,
)

_DEFAULT: Bounds = {
    "brightness": (0.05, 0.98),
    "black_share": (None, 0.5),
    "frozen_share": (None, 0.9),
}


class FilterVideo(LimitsFilter):
    """Keeps rows whose measures are within limits.

    A dropped row counts under the first broken limit. The stage gathers the number of kept and
    dropped clips by reason, with pictures of some clips.
    """

    class Params(LimitsFilter.Params):
        """Configures the limits, and whether to gather pictures."""

        bounds: Bounds = Field(default=_DEFAULT, min_length=1, description=BOUNDS_HELP)
        pictures: bool = Field(
            default=False,
            description=f"Gather small pictures from `frames`, up to {SHOWN} of the kept clips and "
            "of those dropped for each reason. They take some kilobytes per task, and "
            "the report shows them.",
        )

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (*self.params.bounds, *(("clip", "frames") if self.params.pictures else ()))

    def show_clip(self, table: pa.Table, name: str) -> SampledClip:
        (frames,) = find_column(table, "frames").to_pylist()
        return SampledClip(rank_clip(name), name, draw_jpeg(frames or []))
