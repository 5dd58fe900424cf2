"""Handles the appearance of pictures besides pixels: color tags, pixel shape, and losses.

The same levels mean other colors in another range or matrix, and pixels may not be square, so an
encoded copy must carry both. The module must not depend on clips.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from strandline_packs.video.files.orientation import read_orientation

_PICTURES = "yuv420p"
_BITS = 8
_COLOUR_TAGS = ("color_range", "colorspace", "color_primaries", "color_trc")
# PyAV cannot write Matroska's own pixel shape, so streams of clips carry this tag.
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
    """Convert a frame to a size and format for encoders, with its color tags.

    YUV pictures keep range and matrix. RGB pictures have neither, so they get defaults.
    """
    is_rgb = frame.format.is_rgb or frame.format.has_palette
    target = {"dst_colorspace": "ITU601", "dst_color_range": "MPEG"} if is_rgb else {}
    return frame.reformat(width, height, format=_PICTURES, threads=1, **target)


def read_tags(frame: Any) -> tuple[int, ...]:
    """Return the tags of a frame's colors: range, matrix, primaries, and transfer."""
    return tuple(getattr(frame, name) for name in _COLOUR_TAGS)


def copy_tags(frame: Any, encoder: Any) -> None:
    """Make an encoder write the color tags of a converted frame."""
    for name, tag in zip(_COLOUR_TAGS, read_tags(frame), strict=True):
        setattr(encoder, name, tag)


def list_losses(frame: Any) -> Iterator[str]:
    """Yield counter names for properties that conversion drops from a decoded frame."""
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
    """Tag a stream of copied packets with their pixel shape if the packets lack it."""
    shape = source.sample_aspect_ratio
    if shape and shape != (source.codec_context.sample_aspect_ratio or 1):
        target.metadata[_SHAPE_TAG] = f"{shape.numerator}/{shape.denominator}"


def read_shape(stream: Any) -> Fraction:
    """Return the aspect ratio of a pixel as encoded, width by height."""
    return Fraction(stream.metadata.get(_SHAPE_TAG) or stream.sample_aspect_ratio or 1)


def turn_shape(shape: Fraction, frame: Any) -> Fraction:
    """Return the pixel shape after its decoded frame is turned upright."""
    width, height = read_orientation(frame).turn_size(shape.numerator, shape.denominator)
    return Fraction(width, height)
