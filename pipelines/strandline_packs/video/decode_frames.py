"""The stage `decode-frames`: adds some small frames of each clip for later stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.columns import find_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.pictures import PICTURE, Picture
from strandline_packs.video.files.clips import LACKING, NEEDED, decode_clip
from strandline_packs.video.files.containers import FrameScaler, load_av

FRAMES = pa.list_(PICTURE)
TIMES = pa.list_(pa.float64())
_MILLISECOND = 0.001  # unit of the times in a clip's content, in seconds


class DecodeFrames(Stage):
    """Adds `frames`, pictures of a clip at a steady rate, and `frame_times` in seconds."""

    class Params(Stage.Params):
        """Configures the rate and size of frames."""

        rate: float = Field(
            default=2, gt=0, description="Frames per second; all frames if the video has fewer."
        )
        longest: int = Field(
            default=256,
            ge=1,
            description="Maximum length of the longer side in pixels; larger frames are shrunk.",
        )
        max_frames: int = Field(
            default=256,
            ge=1,
            description=(
                "Maximum number of frames of a clip; in longer clips, they are further apart."
            ),
        )
        bad_videos: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of clips without a decodable frame: `fail` the source, or "
            "`drop` and count them.",
        )

    params: Params
    version = "3"
    packages: ClassVar[tuple[str, ...]] = ("av", "numpy")
    keeps_columns = True
    adds_columns = ("frames", "frame_times")

    def list_needed_columns(self) -> tuple[str, ...]:
        return NEEDED

    def setup(self) -> None:
        """Load the library."""
        load_av().logging.set_level(None)

    def process(self, task: Task) -> Task | None:
        """Decode every clip.

        Raises:
            MissingColumnError: the rows are not clips.
            UnreadableFileError: no frame of a clip can be decoded and `badVideos` is `fail`.
        """
        for name in NEEDED:
            find_column(task.table, name)
        rows, frames, times = [], [], []
        for at, row in enumerate(task.table.select(NEEDED).to_pylist()):
            sampled = self._sample(row)
            if sampled:
                rows.append(at)
                # One array per clip: an array of all clips could exceed the limit of its type.
                frames.append(pa.array([list(sampled.values())], FRAMES))
                times.append(list(sampled))
        if not rows:
            return None
        table = task.table if len(rows) == task.num_rows else task.table.take(rows)
        table = table.drop_columns(
            [each for each in self.adds_columns if each in table.column_names]
        )
        table = table.append_column("frames", pa.chunked_array(frames, FRAMES))
        return task.replace(table.append_column("frame_times", pa.array(times, TIMES)))

    def _sample(self, row: Mapping[str, Any]) -> dict[float, Picture]:
        """Return frames by time: the first frame, and the frames at the sampling times."""
        # The minimum avoids a division by zero for a clip without length.
        rate = min(self.params.rate, self.params.max_frames / max(row["end"] - row["start"], 1e-9))
        found: dict[float, Picture] = {}
        scaler, decoded = FrameScaler(), 0
        try:
            for time, frame in decode_clip(row):
                decoded += 1
                # Stored times are rounded to milliseconds: a frame may be stored a little early.
                is_due = (time + _MILLISECOND) * rate >= len(found)
                if is_due and len(found) < self.params.max_frames:
                    size = shrink_size(frame.width, frame.height, self.params.longest)
                    pixels = scaler.scale(frame, size)
                    found[time] = {"width": size[0], "height": size[1], "rgb": pixels.tobytes()}
        except UnreadableFileError:
            if self.params.bad_videos is BadInput.FAIL:
                raise
        if not found:
            if self.params.bad_videos is BadInput.FAIL:
                msg = f"{row['clip']}: none of its frames can be decoded"
                raise UnreadableFileError(msg)
            self.count("dropped: no frame that can be decoded")
        elif lacking := row["frame_count"] - decoded:
            self.count(LACKING, lacking)
        return found


def shrink_size(width: int, height: int, longest: int) -> tuple[int, int]:
    """Return a proportional size with no side longer than `longest` and none shorter than 1."""
    scale = min(1.0, longest / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))
