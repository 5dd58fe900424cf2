"""Stores pictures as column values, and measures them.

A picture is a struct of width, height, and RGB bytes. Pillow does the work, and is imported when
the first picture is decoded. This module takes pixels, returns numbers, and does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.plan.packages import load_module

PICTURE = pa.struct([("width", pa.int32()), ("height", pa.int32()), ("rgb", pa.binary())])

_HASH_SIDE = 8
_LEVELS_A_BYTE = 257  # 65,535 (white in 16 bits) divided by 255
_WHITE = 255
_ORIENTATION = 0x0112  # tag of EXIF
_PHOTOMETRIC = 0x0106  # tag of TIFF
_TURNED = frozenset({5, 6, 7, 8})  # values that exchange width and height

Picture = Mapping[str, Any]


def load_pillow(module: str) -> Any:  # noqa: ANN401 - a module
    """Return a Pillow module, such as `Image`.

    Raises:
        ImportError: Pillow is not installed; the message names the package to install.
    """
    return load_module(f"PIL.{module}")


def to_image(picture: Picture) -> Any:  # noqa: ANN401 - Pillow's image
    """Convert the picture to a Pillow image."""
    size = (picture["width"], picture["height"])
    return load_pillow("Image").frombytes("RGB", size, picture["rgb"])


def to_picture(image: Any) -> dict[str, Any]:  # noqa: ANN401 - Pillow's image
    """Convert a Pillow image to an upright picture. Transparent parts become white."""
    upright = _narrow(turn(image))
    # Skip the white background for opaque images: the result is the same, and takes two thirds of
    # the time.
    opaque = upright if _is_opaque(upright) else _lay_on_white(upright)
    width, height = opaque.size
    coloured = opaque if opaque.mode == "RGB" else opaque.convert("RGB")  # `convert` always copies
    return {"width": width, "height": height, "rgb": coloured.tobytes()}


def turn(image: Any) -> Any:  # noqa: ANN401 - Pillow's image
    """Return the image as its EXIF data turns it. An upright image is not copied."""
    image.load()  # a PNG may have its EXIF data after its pixels
    is_upright = image.getexif().get(_ORIENTATION, 1) == 1
    return image if is_upright else load_pillow("ImageOps").exif_transpose(image)


def decode_smaller(image: Any, longest: int) -> tuple[int, int] | None:  # noqa: ANN401 - Pillow's image
    """Make a JPEG's decoder skip detail that pictures with sides up to `longest` can't show.

    Return width and height of the whole upright image, or None for other formats, which are decoded
    in full. Only a JPEG has its rotation before its pixels.
    """
    if image.format != "JPEG":
        return None
    width, height = image.size
    # Twice the length: the decoder averages blocks, and `shrink` then filters a larger picture.
    image.draft(None, (2 * longest, 2 * longest))
    is_turned = image.getexif().get(_ORIENTATION, 1) in _TURNED
    return (height, width) if is_turned else (width, height)


def _is_opaque(image: Any) -> bool:  # noqa: ANN401 - Pillow's image
    return image.mode in {"RGB", "L"} and "transparency" not in image.info


def _lay_on_white(image: Any) -> Any:  # noqa: ANN401 - Pillow's image
    ground = load_pillow("Image").new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground


def _narrow(image: Any) -> Any:  # noqa: ANN401 - Pillow's image
    # Pillow's own conversion from 16 bits turns all levels above 255 into white.
    if image.mode.startswith("I;16"):
        grey = image.convert("I").point(lambda level: level * (1 / _LEVELS_A_BYTE)).convert("L")
        # Pillow inverts TIFF files whose white is 0, but not those with 16 bits.
        is_inverted = getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == 0
        return load_pillow("ImageOps").invert(grey) if is_inverted else grey
    return _stretch(image) if image.mode in {"I", "F"} else image


def _stretch(image: Any) -> Any:  # noqa: ANN401 - Pillow's image
    """Scale 32-bit gray to 8 bits, from darkest to brightest pixel: no format defines white."""
    low, high = image.getextrema()
    if not math.isfinite(high - low):
        msg = f"its levels go from {low:g} to {high:g}"
        raise ValueError(msg)
    scale = _WHITE / (high - low) if high > low else 0
    shift = 0.5 - low * scale  # adding 0.5 rounds, because the conversion truncates
    return image.point(lambda level: level * scale + shift).convert("L")


def shrink(picture: Picture, longest: int) -> Picture:
    """Return the picture with no side longer than `longest`. Smaller pictures stay unchanged."""
    if max(picture["width"], picture["height"]) <= longest:
        return picture
    image = to_image(picture)
    image.thumbnail((longest, longest), load_pillow("Image").Resampling.LANCZOS)
    return to_picture(image)


def hash_differences(picture: Picture) -> str:
    """Return the difference hash (dHash) of the picture as 64 bits in hexadecimal.

    The picture is shrunk to 9 × 8 gray pixels. A bit is set if a pixel is darker than the pixel to
    the right, so scaling, compression, and overall brightness hardly change the hash. Similar
    pictures differ in few bits.
    """
    grey = to_image(picture).convert("L")
    # Nine columns give eight steps.
    small = grey.resize((_HASH_SIDE + 1, _HASH_SIDE), load_pillow("Image").Resampling.BILINEAR)
    rows = [small.crop((0, at, _HASH_SIDE + 1, at + 1)).tobytes() for at in range(_HASH_SIDE)]
    bits = [right > left for row in rows for left, right in pairwise(row)]
    return f"{int(''.join('01'[bit] for bit in bits), 2):016x}"


def measure(picture: Picture) -> dict[str, float]:
    """Return brightness and contrast from 0 to 1, and sharpness.

    Brightness is the mean of the gray picture and contrast its standard deviation. Sharpness is the
    variance of its Laplacian: near 0 for a blurred picture, hundreds for crisp edges.
    """
    grey = to_image(picture).convert("L")
    spread = load_pillow("ImageStat").Stat(grey)
    return {
        "brightness": round(spread.mean[0] / _WHITE, 6),
        "contrast": round(spread.stddev[0] / _WHITE, 6),
        "sharpness": round(_measure_sharpness(grey), 3),
    }


def _measure_sharpness(grey: Any) -> float:  # noqa: ANN401 - Pillow's image
    if min(grey.size) <= 2:  # noqa: PLR2004 - the picture has no interior
        return 0.0
    # Do not use Pillow's filter: it clips values beyond 0 and 255, which crisp edges reach.
    left, right, above, below = (_shift(grey, *by) for by in ((-1, 0), (1, 0), (0, -1), (0, 1)))
    around = pc.add(pc.add(left, right), pc.add(above, below))
    return float(pc.variance(pc.subtract(around, pc.multiply(_shift(grey, 0, 0), 4))).as_py())


def _shift(grey: Any, across: int, down: int) -> pa.Array:  # noqa: ANN401 - Pillow's image
    """Return the inner pixel levels of the picture, each replaced by the neighbor's level."""
    box = (1 + across, 1 + down, grey.width - 1 + across, grey.height - 1 + down)
    levels = grey.crop(box).tobytes()
    buffers = [None, pa.py_buffer(levels)]
    # Use 16 bits: sums of neighbors exceed 8 bits.
    return pa.Array.from_buffers(pa.uint8(), len(levels), buffers).cast(pa.int16())
