"""Images with all or most of their pixels in files that Pillow rejects."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat
from PIL.PngImagePlugin import PngInfo

from stage_runs import StageRun


def draw() -> Image.Image:
    return Image.effect_mandelbrot((320, 200), (-2.2, -1.2, 0.8, 0.9), 60).convert("RGB")


def encode(kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    draw().save(file, kind, **options)
    return file.getvalue()


def decode(content: bytes) -> tuple[Image.Image | None, dict[str, int]]:
    run = StageRun("decode-images")
    tables = run.tables([{"key": "a", "content": content}])
    if not tables:
        return None, run.counters
    (row,) = tables[0].to_pylist()
    picture = row["picture"]
    image = Image.frombytes("RGB", (picture["width"], picture["height"]), picture["rgb"])
    return image, run.counters


def note(kind: str) -> PngInfo:
    info, text = PngInfo(), "x" * 3_000_000
    if kind == "tEXt":
        info.add_text("Comment", "x" * 70_000_000)
    elif kind == "zTXt":
        info.add_text("Comment", text, zip=True)
    else:
        info.add_itxt("Comment", text, zip=True)
    return info


@pytest.mark.parametrize("kind", ["tEXt", "zTXt", "iTXt", "iCCP"])
def test_a_png_with_a_long_text_or_profile_keeps_its_pixels(kind: str) -> None:
    more: dict[str, Any] = (
        {"icc_profile": b"x" * 3_000_000} if kind == "iCCP" else {"pnginfo": note(kind)}
    )
    image, counters = decode(encode("PNG", **more))
    assert image is not None
    assert image.tobytes() == draw().tobytes()
    assert {"repaired": 1} == counters


JPEGS: list[dict[str, Any]] = [
    {},
    {"progressive": True},
    {"subsampling": 0},
    {"quality": 95, "optimize": True},
    {"restart_marker_rows": 1},
]


@pytest.mark.parametrize("options", JPEGS, ids=range(len(JPEGS)))
@pytest.mark.parametrize("missing", [1, 2, 5, 12])
def test_a_jpeg_without_its_last_bytes_is_decoded(options: dict[str, Any], missing: int) -> None:
    whole = encode("JPEG", **options)
    image, counters = decode(whole[:-missing])
    assert {"repaired": 1} == counters
    assert image is not None
    expected = Image.open(io.BytesIO(whole)).crop((0, 0, 320, 160))
    difference = ImageChops.difference(image.crop((0, 0, 320, 160)), expected)
    assert max(ImageStat.Stat(difference).mean) < 1
    if missing <= 2:  # only the end marker
        assert image.tobytes() == Image.open(io.BytesIO(whole)).tobytes()


@pytest.mark.parametrize("options", JPEGS, ids=range(len(JPEGS)))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.6, 0.7])
def test_a_jpeg_with_missing_rows_is_rejected(options: dict[str, Any], share: float) -> None:
    whole = encode("JPEG", **options)
    there = whole[: int(len(whole) * share)]
    assert (None, {"dropped: not an image": 1}) == decode(there + bytes(len(whole) - len(there)))
    image, counters = decode(there)
    assert image is None
    assert {"dropped: not an image": 1} == counters


@pytest.mark.parametrize(
    "content", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xda", b""]
)
def test_the_header_of_an_image_alone_is_rejected(content: bytes) -> None:
    assert (None, {"dropped: not an image": 1}) == decode(content)


def test_a_repaired_image_is_bounded_too() -> None:
    run = StageRun("decode-images", maxPixels=100)
    assert [] == run.tables([{"key": "a", "content": encode("PNG", pnginfo=note("zTXt"))}])
    assert {"dropped: too large": 1} == run.counters


@pytest.mark.parametrize("kind", ["BMP", "GIF", "ICO", "JPEG", "PNG", "TIFF", "WEBP"])
def test_law_a_damaged_file_becomes_a_picture_or_a_count(kind: str) -> None:
    dice, kept = random.Random(kind), 0
    whole = encode(kind)
    run = StageRun("decode-images", maxPixels=100_000, toSrgb=True, longest=30)
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            content[dice.randrange(300)] = dice.randrange(256)
        content = content[: dice.choice([len(content), dice.randrange(len(content))])]
        for table in run.tables([{"key": "a", "content": bytes(content)}]):
            (picture,) = table["picture"].to_pylist()
            assert len(picture["rgb"]) == 3 * picture["width"] * picture["height"]
            kept += 1
    assert 40 == kept + sum(n for name, n in run.counters.items() if name.startswith("dropped: "))
