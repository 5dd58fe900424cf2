"""The stage `split-video`: splits a video into clips, and emits clips while it reads.

Nothing is encoded: a clip has the original packets. Memory holds only the packets of the clip that
is not complete yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.batching import cut_batches
from strandline.data.tables.file_references import FileReference, list_references
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.video.cuts import SMALL, CutFinder, Lengths
from strandline_packs.video.files.clips import CLIP_SCHEMA, decode_packet
from strandline_packs.video.files.containers import (
    FrameScaler,
    PacketCopy,
    find_pictures,
    find_sound,
    load_av,
    open_video,
)
from strandline_packs.video.files.reading import PictureTrack, VideoReading
from strandline_packs.video.files.sounds import SoundTrack
from strandline_packs.video.files.windows import PacketWindow

_ANY_RATE = 25  # frames per second of a video without a stated rate


class SplitBy(StrEnum):
    """The rule that ends a clip."""

    SCENES = "scenes"
    KEY_FRAMES = "key-frames"
    LENGTH = "length"


class SplitVideo(Stage):
    """Cuts the video in `path` into clips, with a row per clip.

    Tasks with several clips are emitted during reading.
    """

    class Params(Stage.Params):
        """Configures the rule for cuts, and its limits."""

        by: SplitBy = Field(
            default=SplitBy.SCENES,
            description="Where to split. `scenes`: at hard cuts; this decodes every frame. "
            "`key-frames`: at frames that are decodable alone. `length`: every "
            "`maxSeconds`.",
        )
        max_seconds: float = Field(
            default=10, gt=0, description="Maximum length of a clip; longer scenes are split."
        )
        min_seconds: float = Field(
            default=0.5,
            ge=0,
            description="Minimum length of a clip: cuts that follow sooner are ignored, and a "
            "shorter end of a video is dropped and counted.",
        )
        threshold: float = Field(
            default=0.08,
            gt=0,
            le=1,
            description="Minimum mean change of colours, from 0 to 1, between two frames at a cut; "
            "it must also be three times the change of the frames around it.",
        )
        clips_per_task: int = Field(
            default=8,
            ge=1,
            description="Number of clips of a task, which is one shard of `webdataset`.",
        )
        max_clip_bytes: int = Field(
            default=256 * 1024 * 1024,
            ge=1,
            description="Maximum number of bytes held in memory for a clip, from its key frame to "
            "its end; a video that needs more fails.",
        )
        keep_audio: bool = Field(default=True, description="Keep the first audio stream.")
        bad_videos: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of files that are not videos or end early: `fail` the source, "
            "or `drop` and count the unreadable part and keep the clips before it.",
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.min_seconds >= self.max_seconds:
                msg = "minSeconds must be less than maxSeconds"
                raise ValueError(msg)
            return self

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("av", "numpy")
    version = "2"
    keeps_columns = False
    adds_columns = tuple(CLIP_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def setup(self) -> None:
        """Load the library."""
        load_av().logging.set_level(None)  # the stage reports a file's fault itself

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of up to `clipsPerTask` clips of one video.

        Raises:
            MissingColumnError: the table names no files.
            UnreadableFileError: during iteration, if a video can't be read and `badVideos` is
                `fail`.
        """
        return self._split_all(task, list_references(task))

    def _split_all(self, task: Task, files: Iterable[FileReference]) -> Iterator[Task]:
        for file in files:
            clips, most_bytes = self._tolerate(file), self.params.max_clip_bytes
            for rows in cut_batches(clips, _measure, self.params.clips_per_task, most_bytes):
                yield task.replace(pa.Table.from_pylist(rows, CLIP_SCHEMA))

    def _tolerate(self, file: FileReference) -> Iterator[dict[str, Any]]:
        try:
            yield from self._split(file)
        except UnreadableFileError:
            if self.params.bad_videos is BadInput.FAIL:
                raise
            self.count("dropped: no video or an end that can't be read")

    def _split(self, file: FileReference) -> Iterator[dict[str, Any]]:
        with open_video(file.path) as container:
            pictures = find_pictures(container, file.path)
            stream = find_sound(container) if self.params.keep_audio else None
            self._count_streams(container, (pictures, stream))
            sound = None if stream is None else SoundTrack(stream, file.path)
            window = PacketWindow(
                (PictureTrack(pictures, file.path), sound),
                Fraction(pictures.average_rate or _ANY_RATE),
                file.path,
                self.params.max_clip_bytes,
            )
            reading = VideoReading(container, pictures, sound, window)
            number = 0
            for begin, end in self._cut(reading):
                cut = window.cut(begin, end)
                if cut is None:
                    continue  # no frame is displayed in this range
                about = reading.describe()
                row = {"key": file.key, "clip": f"{file.key}#{number:05}", **about, **cut}
                number += 1
                # The text is exact, while `Fraction(0.1)` would have the error of the float.
                if end - begin < Fraction(str(self.params.min_seconds)):
                    self.count("dropped: too short")
                    continue
                yield row
            reading.check_end()

    def _count_streams(self, container: Any, kept: tuple[Any, Any]) -> None:
        """Count the streams that clips omit, except audio that the parameters exclude."""
        for stream in container.streams:
            is_unwanted = stream.type == "audio" and not self.params.keep_audio
            if stream not in kept and not is_unwanted:
                self.count(f"left out: a stream of {stream.type}")

    def _cut(self, reading: VideoReading) -> Iterator[tuple[Fraction, Fraction]]:
        """Yield the bounds of clips, as soon as the window contains the whole clip."""
        window, pictures = reading.window, reading.pictures
        finder, scaler = CutFinder(self.params.threshold), FrameScaler()
        lengths: Lengths | None = None
        last, ends = Fraction(0), list[Fraction]()
        for packet, piece in reading.read():
            frames = self._decode(reading, packet)
            if lengths is None and not piece.is_hidden:
                last = window.zero = reading.find_begin(piece)
                lengths = Lengths(
                    last,
                    Fraction(str(self.params.min_seconds)),
                    Fraction(str(self.params.max_seconds)),
                )
            if lengths is None:
                continue  # an edit list hides the start of the video
            for cut in self._find_cuts((finder, scaler), packet, frames, piece):
                lengths.add(cut)
            horizon = finder.horizon if self.params.by is SplitBy.SCENES else window.order
            ends += lengths.choose(horizon if horizon is not None else last)
            while ends and window.has_all(ends[0]):
                yield last, ends[0]
                last = ends.pop(0)
        if lengths is None:
            msg = f"{window.path}: not a video: it has no pictures"
            raise UnreadableFileError(msg)
        for cut in self._flush((finder, scaler), pictures):
            lengths.add(cut)
        for end in [*ends, *lengths.choose(window.end), window.end]:
            yield last, end
            last = end

    def _decode(self, reading: VideoReading, packet: Any) -> list[Any]:
        """Return the frames of a packet while the cutter needs them."""
        if self.params.by is not SplitBy.SCENES and reading.orientation is not None:
            return []
        frames = decode_packet(packet)
        reading.look_at(frames)
        return frames

    def _find_cuts(
        self,
        tools: tuple[CutFinder, FrameScaler],
        packet: Any,
        frames: Iterable[Any],
        piece: PacketCopy,
    ) -> Iterator[Fraction]:
        if self.params.by is SplitBy.KEY_FRAMES and piece.is_key and not piece.is_hidden:
            yield piece.time
        if self.params.by is SplitBy.SCENES:
            for frame in frames:
                yield from _look_at(frame, packet.time_base, *tools)

    def _flush(self, tools: tuple[CutFinder, FrameScaler], pictures: Any) -> Iterator[Fraction]:
        """Yield the cuts that are known only at the end."""
        if self.params.by is SplitBy.SCENES:
            for frame in pictures.codec_context.decode(None):
                yield from _look_at(frame, pictures.time_base, *tools)
            yield from tools[0].finish()


def _measure(row: dict[str, Any]) -> int:
    return len(row["content"])


def _look_at(
    frame: Any, base: Fraction, finder: CutFinder, scaler: FrameScaler
) -> Iterator[Fraction]:
    if frame.pts is not None:
        yield from finder.add(frame.pts * base, scaler.scale(frame, SMALL))
