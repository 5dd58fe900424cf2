"""How pictures look beside their pixels: colours, the shape of a pixel, and what a copy lacks.

Levels mean other colours under another range or matrix, and pixels need not be square, so a file
that is encoded again has to carry both. It knows frames and streams, nothing of clips.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from strandline_packs.video.files.orientation import read_orientation

_PICTURES = "yuv420p"
_BITS = 8
_COLOUR_TAGS = ("color_range", "colorspace", "color_primaries", "color_trc")
# Matroska has a shape of its own, which PyAV can't write, so a clip's stream has this tag.
_SHAPE_TAG = "PIXEL_SHAPE"
# Side data of frames that states how bright HDR pictures are meant to be.
_HDR = {
    "MASTERING_DISPLAY_METADATA",
    "CONTENT_LIGHT_LEVEL",
    "DYNAMIC_HDR_PLUS",
    "DYNAMIC_HDR_VIVID",
    "DOVI_RPU_BUFFER",
    "DOVI_METADATA",
}


def convert_frame(frame: Any, width: int, height: int) -> Any:
    """Return a frame in another size as encoders take it, with the tags of its colours.

    Pictures of YUV keep range and matrix. Those of RGB have neither, so they get one of each.
    """
    is_rgb = frame.format.is_rgb or frame.format.has_palette
    target = {"dst_colorspace": "ITU601", "dst_color_range": "MPEG"} if is_rgb else {}
    return frame.reformat(width, height, format=_PICTURES, threads=1, **target)


def read_tags(frame: Any) -> tuple[int, ...]:
    """Return the tags of a frame's colours: range, matrix, primaries, and transfer."""
    return tuple(getattr(frame, name) for name in _COLOUR_TAGS)


def copy_tags(frame: Any, encoder: Any) -> None:
    """Have an encoder write the tags of a converted frame."""
    for name, tag in zip(_COLOUR_TAGS, read_tags(frame), strict=True):
        setattr(encoder, name, tag)


def list_losses(frame: Any) -> Iterator[str]:
    """Yield reasons to count, for what a decoded frame has and a converted one lacks."""
    components = frame.format.components
    if any(each.bits > _BITS for each in components):
        yield "reduced: more than 8 bits a colour"
    if any(each.is_alpha for each in components):
        yield "left out: transparency"
    if frame.interlaced_frame:
        yield "left out: order of interlaced fields"
    if any(each.type.name in _HDR for each in frame.side_data):
        yield "left out: brightness of HDR pictures"


def copy_shape(source: Any, target: Any) -> None:
    """Tag a stream of copied packets with the shape of their pixels, if these lack it."""
    shape = source.sample_aspect_ratio
    if shape and shape != (source.codec_context.sample_aspect_ratio or 1):
        target.metadata[_SHAPE_TAG] = f"{shape.numerator}/{shape.denominator}"


def read_shape(stream: Any) -> Fraction:
    """Return the width of a pixel by its height, as the pictures are encoded."""
    return Fraction(stream.metadata.get(_SHAPE_TAG) or stream.sample_aspect_ratio or 1)


def turn_shape(shape: Fraction, frame: Any) -> Fraction:
    """Return the shape of a pixel after its decoded frame is put upright."""
    width, height = read_orientation(frame).turn_size(shape.numerator, shape.denominator)
    return Fraction(width, height)
