"""The stage `transcode-clip`: encodes each clip as a file of exactly its frames.

Encoders run on one thread and write neither times nor library versions: with the same libraries, a
clip always gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from fractions import Fraction
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.video.files.clips import (
    LACKING,
    NEEDED,
    ClipFrame,
    decode_clip,
    decode_packet,
    read_clip_shape,
)
from strandline_packs.video.files.containers import (
    EXACT,
    explaining,
    find_sound,
    load_av,
    open_content,
)
from strandline_packs.video.files.looks import convert_frame, copy_tags, list_losses, read_tags
from strandline_packs.video.files.sounds import find_layout

_MILLISECOND = Fraction(1, 1000)  # unit of the times in a clip's content
_SOUND_RATE = 48_000  # in hertz
_KEY_SECONDS = 2  # seconds between key frames, so that players can seek
_OTHER_COLOURS = "frames of other colours than their clip's first"
_ANY_RATE = 30  # frame rate of a video without a stated rate


class Codec(StrEnum):
    """The codec of pictures."""

    H264 = "h264"
    HEVC = "hevc"
    VP9 = "vp9"


# Encoders, and their fixed options.
_ENCODERS: Mapping[Codec, tuple[str, Mapping[str, str]]] = {
    # The macroblock tree reads uninitialized memory, so no two runs give the same bytes.
    Codec.H264: ("libx264", {"x264-params": "mbtree=0"}),
    Codec.HEVC: ("libx265", {"x265-params": "pools=none:frame-threads=1:log-level=none"}),
    Codec.VP9: ("libvpx-vp9", {"b": "0", "deadline": "good", "cpu-used": "4"}),
}
_WITH_PRESETS = {Codec.H264, Codec.HEVC}
_LEAST_HEVC_SIDE = 16  # limit of libx265
# In rows of up to three blocks of 16 pixels, libx265's coding-unit tree writes beyond its memory,
# which crashes the process or corrupts data.
_NARROW_HEVC = 48

_KINDS = {
    "content": pa.binary(),
    "lead": pa.float64(),
    "codec": pa.string(),
    "width": pa.int32(),
    "height": pa.int32(),
    "rate": pa.float64(),
    "frame_count": pa.int32(),
    "has_audio": pa.bool_(),
}


class TranscodeClip(Stage):
    """Encodes each clip's `content` as an MP4 file with exactly its frames and their appearance."""

    class Params(Stage.Params):
        """Configures the codec, quality, size, and rate of the files."""

        codec: Codec = Field(default=Codec.H264, description="Codec of the pictures.")
        quality: int = Field(
            default=23,
            ge=0,
            le=63,
            description="CRF of the encoder. Lower values give better quality and larger files.",
        )
        preset: str = Field(
            default="veryfast", description="Effort that `h264` and `hevc` spend on smaller files."
        )
        longest: int | None = Field(
            default=None,
            ge=16,
            description=(
                "Maximum length of the longer side in pixels; larger pictures are shrunk."
            ),
        )
        rate: Fraction | None = Field(
            default=None,
            gt=0,
            description="Frames per second, such as 25 or 30000/1001; by default frames keep their "
            "times, even if the rate varies.",
        )
        keep_audio: bool = Field(default=True, description="Keep the sound, as AAC.")

    params: Params
    version = "4"
    packages: ClassVar[tuple[str, ...]] = ("av", "numpy")
    keeps_columns = True
    adds_columns = tuple(name for name in _KINDS if name not in NEEDED)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (*NEEDED, "rate")

    def setup(self) -> None:
        """Load the library."""
        load_av().logging.set_level(None)

    def process(self, task: Task) -> Task:
        """Encode every clip.

        Raises:
            MissingColumnError: the rows are not clips.
            UnreadableFileError: a clip has no decodable frame, or is too small for the codec.
        """
        for name in self.list_needed_columns():
            find_column(task.table, name)
        changed = [
            self._encode(row) for row in task.table.select(self.list_needed_columns()).to_pylist()
        ]
        table = task.table
        for name, kind in _KINDS.items():
            table = set_column(table, name, [each[name] for each in changed], kind)
        return task.replace(table)

    def _encode(self, row: Mapping[str, Any]) -> dict[str, Any]:
        frames = self._pace(self._decode(row), row)
        first = next(frames, None)
        if first is None:
            msg = f"{row['clip']}: none of its frames can be decoded"
            raise UnreadableFileError(msg)
        for loss in list_losses(first[1]):
            self.count(loss)
        target = io.BytesIO()
        with (
            closing(frames),  # close the file of a rejected clip
            open_content(row["content"], row["clip"]) as container,
            explaining(row["clip"]),
            load_av().open(target, "w", format="mp4", options=EXACT) as file,
        ):
            sound = find_sound(container) if self.params.keep_audio else None
            pictures = self._add_pictures(file, first[1], row)
            track = sound and _add_sound(file, sound)
            count = 0
            for time, frame in chain([first], frames):
                file.mux(pictures.encode(_fit(frame, pictures, time)))
                count += 1
            file.mux(pictures.encode(None))
            if track:
                fitting = load_av().AudioResampler(
                    format=track.format.name, layout=track.layout.name, rate=_SOUND_RATE
                )
                for chunk in chain(_read_sound(container, sound, row["lead"]), [None]):
                    for samples in fitting.resample(chunk):
                        file.mux(track.encode(samples))
                file.mux(track.encode(None))
        return {
            "content": target.getvalue(),
            "lead": 0.0,
            "codec": self.params.codec.value,
            "width": pictures.width,
            "height": pictures.height,
            "rate": float(self.params.rate or row["rate"]),
            "frame_count": count,
            "has_audio": sound is not None,
        }

    def _decode(self, row: Mapping[str, Any]) -> Iterator[ClipFrame]:
        """Yield the frames of a clip, and count missing frames and color losses."""
        decoded, tags = 0, None
        for each in decode_clip(row):
            decoded += 1
            tags = tags or read_tags(each.frame)
            if tags != read_tags(each.frame):  # a file can have only one set of tags
                self.count(_OTHER_COLOURS)
            yield each
        if lacking := row["frame_count"] - decoded:
            self.count(LACKING, lacking)

    def _pace(
        self, frames: Iterable[ClipFrame], row: Mapping[str, Any]
    ) -> Generator[tuple[int, Any]]:
        """Yield frames with their time in units of the requested rate, or in milliseconds."""
        rate, shown, unit = self.params.rate, None, 0
        if rate is None:
            yield from ((round(time / _MILLISECOND), frame) for time, frame in frames)
            return
        # An entry without a frame marks the end of the clip, up to which the last frame is shown.
        for time, frame in chain(frames, [(row["end"] - row["start"], None)]):
            # A frame on the screen stays there until the next one comes.
            # Stored times are rounded to milliseconds: a frame may be stored a little late.
            while shown is not None and unit < (time - _MILLISECOND) * rate:
                yield unit, shown
                unit += 1
            shown = frame

    def _add_pictures(self, file: Any, frame: Any, row: Mapping[str, Any]) -> Any:
        av, rate = load_av(), self.params.rate
        # The denominator recovers rates such as 30000/1001 from a float.
        shown = rate or Fraction(row["rate"] or _ANY_RATE).limit_denominator(1001)
        name, options = _ENCODERS[self.params.codec]
        stream = file.add_stream(name, rate=shown)
        scale = min(1.0, (self.params.longest or 1 << 20) / max(frame.width, frame.height))
        stream.width, stream.height = (  # even sides, because color planes have half the size
            max(2, round(side * scale / 2) * 2) for side in (frame.width, frame.height)
        )
        preset = {"preset": self.params.preset} if self.params.codec in _WITH_PRESETS else {}
        if self.params.codec is Codec.HEVC:
            options = _fit_hevc(options, stream.width, stream.height, row["clip"])
        stream.options = {"crf": str(self.params.quality), **preset, **options}
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        copy_tags(convert_frame(frame, stream.width, stream.height), context)
        context.sample_aspect_ratio = read_clip_shape(row)
        context.time_base = stream.time_base = 1 / rate if rate else _MILLISECOND
        context.gop_size = max(1, round(shown * _KEY_SECONDS))
        context.thread_count = 1
        context.flags |= av.codec.context.Flags.bitexact
        return stream


def _fit_hevc(options: Mapping[str, str], width: int, height: int, clip: str) -> Mapping[str, str]:
    """Return options that make libx265 safe for this size.

    Raises:
        UnreadableFileError: libx265 cannot encode this size.
    """
    if min(width, height) < _LEAST_HEVC_SIDE:
        msg = (
            f"{clip}: hevc needs sides of at least {_LEAST_HEVC_SIDE} pixels, but this clip would "
            f"have {width} x {height}; use h264 or vp9"
        )
        raise UnreadableFileError(msg)
    if width > _NARROW_HEVC:
        return options
    return {name: f"{value}:cutree=0" for name, value in options.items()}


def _fit(frame: Any, stream: Any, time: int) -> Any:
    """Convert a frame to the size of a stream, with a display time in units of the stream."""
    picture = convert_frame(frame, stream.width, stream.height)
    if picture is frame:  # copy, because the same frame may be displayed again
        picture = load_av().VideoFrame.from_ndarray(frame.to_ndarray(), format="yuv420p")
    picture.pts, picture.time_base = time, stream.codec_context.time_base
    picture.pict_type = 0  # the encoder chooses its own key frames
    return picture


def _add_sound(file: Any, sound: Any) -> Any:
    track = file.add_stream("aac", rate=_SOUND_RATE, layout=find_layout(sound.codec_context))
    track.codec_context.flags |= load_av().codec.context.Flags.bitexact
    return track


def _read_sound(container: Any, sound: Any, lead: float) -> Iterator[Any]:
    """Yield decoded audio with times from the start of the clip."""
    sound.codec_context.thread_count = 1
    for packet in container.demux(sound):
        for frame in decode_packet(packet):
            time = frame.pts * frame.time_base - Fraction(lead)
            frame.pts = max(0, round(time / frame.time_base))
            yield frame
