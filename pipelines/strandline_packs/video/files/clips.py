"""Decodes clips, which are table rows with packets of a part of a video in a container.

Clips are cut without encoding, so the content starts with the key frame that the first picture
needs, `lead` seconds before the clip. Decoders skip the lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from strandline_packs.video.files.containers import find_pictures, load_av, open_content
from strandline_packs.video.files.looks import read_shape, turn_shape
from strandline_packs.video.files.orientation import FrameTurner

CLIP_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("clip", pa.string()),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
        pa.field("frame_count", pa.int32()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("rate", pa.float64()),
        pa.field("codec", pa.string()),
        pa.field("has_audio", pa.bool_()),
        pa.field("lead", pa.float64()),
        pa.field("content", pa.binary()),
    ]
)
# Counter for clips that are processed although some frames are damaged.
LACKING = "frames that can't be decoded"
NEEDED = ("clip", "start", "end", "frame_count", "lead", "content")

# Containers round times to milliseconds, so the difference of two times may be off by 1 ms. Frames
# are further apart.
_ROUNDED = 0.001


class ClipFrame(NamedTuple):
    """A decoded frame, and its time from the start of the clip in seconds."""

    time: float
    frame: Any


def decode_clip(row: Mapping[str, Any]) -> Iterator[ClipFrame]:
    """Yield the frames of a clip in display order, turned upright.

    Damaged packets are skipped, as are frames of damaged packets with a duplicate display time.

    Raises:
        UnreadableFileError: the content is not a video.
    """
    with open_content(row["content"], row["clip"]) as container:
        stream = find_pictures(container, row["clip"])
        lead, last, base, count = row["lead"], row["frame_count"], float(stream.time_base), 0
        turner, shown = FrameTurner(), -1.0
        for packet in container.demux(stream):
            for frame in decode_packet(packet):
                time = frame.pts * base - lead
                time = max(0.0, round(time, 3)) if time >= -_ROUNDED else -1.0
                if time > shown and count < last:
                    shown, count = time, count + 1
                    yield ClipFrame(time, turner.turn(frame))


def read_clip_shape(row: Mapping[str, Any]) -> Fraction:
    """Return the aspect ratio of a pixel in frames of `decode_clip`, width by height.

    Raises:
        UnreadableFileError: the content is no video.
    """
    with open_content(row["content"], row["clip"]) as container:
        stream = find_pictures(container, row["clip"])
        shape = read_shape(stream)
        if shape == 1:  # square pixels stay square in every orientation, so skip decoding
            return shape
        frames = (frame for packet in container.demux(stream) for frame in decode_packet(packet))
        first = next(frames, None)
        return shape if first is None else turn_shape(shape, first)


def decode_packet(packet: Any, decoder: Any = None) -> list[Any]:
    """Return the frames of a packet; none if the packet is damaged.

    Args:
        decoder: decoder to use; None for the decoder of the packet's stream.
    """
    try:
        frames = packet.decode() if decoder is None else decoder.decode(packet)
        return [frame for frame in frames if frame.pts is not None]
    except (load_av().error.InvalidDataError, load_av().error.EOFError):
        return []
