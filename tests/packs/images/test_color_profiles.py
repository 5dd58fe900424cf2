"""Images with a color profile: their values become those of sRGB."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from stage_runs import StageRun

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def swap_primaries() -> bytes:
    """Return a profile in which the first channel is sRGB's blue, and the third its red."""
    content = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    entries = {bytes(content[at : at + 4]): at for at in range(132, 132 + 12 * content[131], 12)}
    red, blue = entries[b"rXYZ"], entries[b"bXYZ"]
    content[red + 4 : red + 12], content[blue + 4 : blue + 12] = (
        content[blue + 4 : blue + 12],
        content[red + 4 : red + 12],
    )
    return bytes(content)


def encode(image: Image.Image, kind: str, profile: bytes | None, **more: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, icc_profile=profile, **more)
    return file.getvalue()


def decode(content: bytes, **values: Any) -> tuple[dict[str, Any], dict[str, int]]:
    run = StageRun("decode-images", **values)
    (table,) = run.tables([{"key": "a", "content": content}])
    return table.to_pylist()[0]["picture"], run.counters


def read_pixel(picture: dict[str, Any], at: int = 0) -> tuple[int, ...]:
    return tuple(picture["rgb"][3 * at : 3 * at + 3])


def near(pixel: tuple[int, ...], color: tuple[int, ...]) -> bool:
    return all(abs(one - other) <= 8 for one, other in zip(pixel, color, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_values_of_a_profile_become_values_of_srgb(kind: str, mode: str) -> None:
    image = Image.new("RGB", (4, 4), RED).convert(mode)
    more = {"lossless": True} if kind == "WEBP" else {}
    content = encode(image, kind, swap_primaries(), **more)
    picture, counters = decode(content, toSrgb=True)
    assert near(read_pixel(picture), BLUE)
    assert counters == {"converted to sRGB": 1}
    plain, counters = decode(content)
    assert near(read_pixel(plain), RED)
    assert counters == {}


def test_an_image_without_a_profile_stays() -> None:
    picture, counters = decode(encode(Image.new("RGB", (2, 2), RED), "PNG", None), toSrgb=True)
    assert read_pixel(picture) == RED
    assert counters == {}


def test_transparent_parts_become_white_after_the_conversion() -> None:
    image = Image.new("RGBA", (2, 1), (*RED, 0))
    image.putpixel((1, 0), (*RED, 255))
    picture, _ = decode(encode(image, "PNG", swap_primaries()), toSrgb=True)
    assert read_pixel(picture) == (255, 255, 255)
    assert near(read_pixel(picture, 1), BLUE)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_turned_image_is_turned_once(kind: str) -> None:
    image = Image.new("RGB", (16, 8), GREEN)
    image.paste(RED, (0, 0, 8, 8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    picture, _ = decode(encode(image, kind, swap_primaries(), exif=exif), toSrgb=True)
    assert (picture["width"], picture["height"]) == (8, 16)
    assert near(read_pixel(picture, 1), BLUE)
    assert near(read_pixel(picture, 8 * 15), GREEN)


@pytest.mark.parametrize("profile", [b"no profile", b"\0" * 200])
def test_a_damaged_profile_is_counted_and_the_image_stays(profile: bytes) -> None:
    content = encode(Image.new("RGB", (2, 2), RED), "PNG", profile)
    picture, counters = decode(content, toSrgb=True)
    assert read_pixel(picture) == RED
    assert counters == {"profiles that can't be read": 1}


def test_a_profile_of_another_mode_is_counted() -> None:
    content = encode(Image.new("L", (2, 2), 100), "PNG", swap_primaries())
    picture, counters = decode(content, toSrgb=True)
    assert read_pixel(picture) == (100, 100, 100)
    assert counters == {"profiles that can't be read": 1}


def make_ink_profile() -> bytes:
    """Return a profile of CMYK in which each full ink takes a quarter of the lightness."""
    grid = b"".join(bytes([255 - round(63.75 * n.bit_count()), 128, 128]) for n in range(16))
    matrix, ramp = struct.pack(">9i", *(65536, 0, 0, 0) * 2, 65536), bytes(range(256))
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + matrix + 4 * ramp + grid + 3 * ramp
    white = struct.pack(">3i", 63190, 65536, 54061)
    tags = {b"desc": b"desc" + bytes(7) + b"\x02t" + bytes(79), b"cprt": b"text" + bytes(8)}
    tags |= {b"wtpt": b"XYZ " + bytes(4) + white, b"A2B0": table}
    at, listing, body = 132 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        listing += name + struct.pack(">II", at + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    size = struct.pack(">I", at + len(body))
    head = size + b"lcms" + b"\2\x40\0\0" + b"prtrCMYKLab " + bytes(12) + b"acsp" + bytes(28)
    return (head + white).ljust(128, b"\0") + listing + body


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
@pytest.mark.parametrize("inks", [(0, 255, 255, 0), (90, 60, 30, 20), (0, 0, 0, 64)])
def test_inks_become_colors(kind: str, inks: tuple[int, ...]) -> None:
    """Inks multiply without a profile. With the profile, numpy computes the gray of a lightness."""
    image = Image.new("CMYK", (16, 16), inks)
    picture, counters = decode(encode(image, kind, None), toSrgb=True)
    plain = 255 * (1 - np.array(inks[:3]) / 255) * (1 - inks[3] / 255)
    assert near(read_pixel(picture), tuple(plain))
    assert counters == {}
    picture, counters = decode(encode(image, kind, make_ink_profile()), toSrgb=True)
    light = ((100 * (1 - np.mean(inks) / 255) + 16) / 116) ** 3
    gray = 255 * (1.055 * light ** (1 / 2.4) - 0.055)
    assert np.abs(np.array(read_pixel(picture)) - gray).max() < 3
    assert counters == {"converted to sRGB": 1}


@pytest.mark.parametrize("mode", ["L", "P", "RGB"])
@pytest.mark.parametrize("has_profile", [False, True])
def test_transparent_colors_become_white(mode: str, has_profile: bool) -> None:
    image = Image.new("L", (2, 1), 10)
    image.putpixel((1, 0), 200)
    image, profile = image.convert(mode), swap_primaries() if has_profile and mode != "L" else None
    content = encode(image, "PNG", profile, transparency=image.getpixel((0, 0)))
    picture, _ = decode(content, toSrgb=True)
    assert read_pixel(picture) == (255, 255, 255)
    assert near(read_pixel(picture, 1), (200, 200, 200))
