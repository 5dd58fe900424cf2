"""The stage `measure-motion`: measures the motion between the frames of a clip."""

from __future__ import annotations

from collections.abc import Sequence

from strandline_packs.images.pictures import Picture
from strandline_packs.video.measure_video import FrameMeasures
from strandline_packs.video.measures import Motion, measure_motion, to_grey


class MeasureMotion(FrameMeasures):
    """Adds `motion`, the mean change of a clip's `frames`, and `moving_share`, of moving cells."""

    adds_columns = Motion._fields

    def _measure(self, frames: Sequence[Picture]) -> Motion:
        """Return the measures of a clip's motion."""
        return measure_motion(to_grey(frames))
