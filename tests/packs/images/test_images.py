"""Images: decoded, shrunk, measured, and hashed; drawn by formula or shipped with packages."""

from __future__ import annotations

import io
import random
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter
from PIL.PngImagePlugin import PngImageFile

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline_packs.images.pictures import (
    hash_differences,
    measure,
    shrink,
    to_image,
    to_picture,
)


def draw(width: int = 320, height: int = 200) -> Image.Image:
    """Draw a fractal with many gray levels and crisp edges, asymmetric from left to right."""
    return Image.effect_mandelbrot((width, height), (-2.2, -1.2, 0.8, 0.9), 60).convert("RGB")


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def count_differences(one: str, other: str) -> int:
    return (int(one, 16) ^ int(other, 16)).bit_count()


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG", "BMP", "WEBP", "TIFF", "ICO"])
def test_formats_are_decoded(run: type[StageRun], kind: str) -> None:
    content = encode(draw(64, 48), kind)
    (table,) = run("decode-images").tables([{"key": "a", "content": content}])
    (row,) = table.to_pylist()
    assert ("a", kind.lower()) == (row["key"], row["format"])
    assert len(row["picture"]["rgb"]) == 3 * row["width"] * row["height"]
    if kind != "ICO":
        assert (64, 48) == (row["width"], row["height"])


def test_each_image_is_a_task_and_other_content_is_dropped(run: type[StageRun]) -> None:
    good = encode(draw())
    stage = run("decode-images", maxPixels=70_000)
    rows = [
        {"key": "good", "content": good},
        {"key": "cut", "content": good[: len(good) // 2]},
        {"key": "text", "content": b"no image"},
        {"key": "large", "content": encode(Image.new("1", (300, 300)))},
        {"key": "also good", "content": encode(draw(8, 8))},
    ]
    assert ["good", "also good"] == [t["key"][0].as_py() for t in stage.tables(rows)]
    assert {"dropped: not an image": 2, "dropped: too large": 1} == stage.counters
    assert [] == stage.tables(rows[1:4])
    with pytest.raises(UnreadableFileError, match="cut: not a decodable image"):
        run("decode-images", badImages="fail").tables(rows)


def test_a_shrunk_picture_keeps_the_size_of_its_file(run: type[StageRun]) -> None:
    for kind in ("JPEG", "PNG", "WEBP"):
        (table,) = run("decode-images", longest=64).tables(
            [{"key": "a", "content": encode(draw(640, 400), kind)}]
        )
        (row,) = table.to_pylist()
        assert (640, 400) == (row["width"], row["height"])
        assert (64, 40) == (row["picture"]["width"], row["picture"]["height"])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(640, 400), (129, 128), (3000, 2000), (100, 1)])
def test_a_picture_shrunk_by_its_decoder_looks_like_one_shrunk_afterwards(
    run: type[StageRun], kind: str, size: tuple[int, int]
) -> None:
    rows = [{"key": "a", "content": encode(draw(*size), kind, quality=95)}]
    (whole,) = run("decode-images").tables(rows)
    (small,) = run("decode-images", longest=64).tables(rows)
    (expected,) = run("resize-images", longest=64).column("picture", whole["picture"].to_pylist())
    (picture,) = small["picture"].to_pylist()
    assert [picture[side] for side in ("width", "height")] == pytest.approx(
        [expected[side] for side in ("width", "height")], abs=1
    )
    if picture["width"] == expected["width"] and picture["height"] == expected["height"]:
        pixels = [np.frombuffer(each["rgb"], np.uint8).astype(int) for each in (picture, expected)]
        assert np.abs(pixels[0] - pixels[1]).mean() < 3
    assert count_differences(hash_differences(picture), hash_differences(expected)) <= 4


def test_a_damaged_jpeg_is_found_at_each_scale(run: type[StageRun]) -> None:
    content = encode(draw(640, 400), "JPEG")
    for longest in (8, 64, 200, 1000):
        stage = run("decode-images", longest=longest)
        assert [] == stage.tables([{"key": "a", "content": content[: len(content) // 2]}])
        assert {"dropped: not an image": 1} == stage.counters


@pytest.mark.parametrize("column", ["image", "image.bytes", "sample.image", "sample.image.bytes"])
def test_images_in_struct_columns_of_the_hub_are_read(run: type[StageRun], column: str) -> None:
    images = [{"bytes": encode(draw(8, 8)), "path": "a.png"}, {"bytes": None, "path": "b"}, None]
    rows = [
        {"key": str(number), "image": image, "sample": {"image": image}}
        for number, image in enumerate(images)
    ]
    stage = run("decode-images", column=column)
    assert ["0"] == [table["key"][0].as_py() for table in stage.tables(rows)]
    assert 2 == stage.counters["dropped: not an image"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("image.byte", "the column 'image' has no field 'byte'; it has: bytes, path"),
        ("key.bytes", "the column 'key' has no field 'bytes'; it has: none"),
        ("picture.bytes", "there is no column 'picture'"),
    ],
)
def test_a_field_that_is_missing_is_named(run: type[StageRun], column: str, message: str) -> None:
    rows = [{"key": "a", "image": {"bytes": b"", "path": ""}}]
    with pytest.raises(MissingColumnError, match=message):
        run("decode-images", column=column).tables(rows)


@pytest.mark.parametrize("has_transparency", [False, True])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_images_of_every_mode_are_composited_on_white(mode: str, has_transparency: bool) -> None:
    noise = Image.frombytes("RGB", (16, 16), random.Random(1).randbytes(16 * 16 * 3))
    image = noise.convert(mode)
    if has_transparency and mode in {"L", "P", "RGB"}:
        image.info["transparency"] = image.getpixel((0, 0))
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    assert to_picture(image)["rgb"] == ground.convert("RGB").tobytes()


def test_transparent_images_are_on_white_and_rotated_ones_upright() -> None:
    clear = Image.new("RGBA", (4, 2), (255, 0, 0, 0))
    assert b"\xff" * 24 == to_picture(clear)["rgb"]
    turned = draw(64, 48)
    orientation = Image.Exif()
    orientation[0x0112] = 6
    upright = Image.open(io.BytesIO(encode(turned, "JPEG", exif=orientation)))
    assert (48, 64) == (to_picture(upright)["width"], to_picture(upright)["height"])


@pytest.mark.parametrize(
    ("size", "expected"),
    [((320, 200), (256, 160)), ((100, 1000), (26, 256)), ((256, 1), (256, 1)), ((9, 9), (9, 9))],
)
def test_images_are_shrunk_in_proportion_and_never_enlarged(
    size: tuple[int, int], expected: tuple[int, int]
) -> None:
    shrunk = shrink(to_picture(draw(*size)), 256)
    assert expected == (shrunk["width"], shrunk["height"])


def test_the_hash_is_close_for_similar_and_far_for_different_images() -> None:
    image = draw()
    told = hash_differences(to_picture(image))
    same = [
        image.resize((160, 100)),
        Image.open(io.BytesIO(encode(image, "JPEG", quality=40))),
        ImageEnhance.Brightness(image).enhance(0.8),
        image.filter(ImageFilter.GaussianBlur(1)),
    ]
    near = [count_differences(told, hash_differences(to_picture(each))) for each in same]
    assert max(near) <= 6
    others = [image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), image.rotate(90)]
    far = [count_differences(told, hash_differences(to_picture(each))) for each in others]
    assert min(far) >= 12


def test_the_hash_has_a_bit_for_each_step_that_becomes_brighter() -> None:
    rising = Image.linear_gradient("L").rotate(90)
    assert {"0" * 16, "f" * 16} == {
        hash_differences(to_picture(each)) for each in (rising, rising.rotate(180))
    }
    assert "0" * 16 == hash_differences(to_picture(Image.new("RGB", (1, 1), "white")))


def test_measures_separate_bright_from_dark_and_sharp_from_blurred() -> None:
    white, black = (measure(to_picture(Image.new("L", (9, 9), level))) for level in (255, 0))
    assert {"brightness": 1.0, "contrast": 0.0, "sharpness": 0.0} == white
    assert {"brightness": 0.0, "contrast": 0.0, "sharpness": 0.0} == black
    half = Image.new("L", (10, 10), 0)
    ImageDraw.Draw(half).rectangle((5, 0, 9, 9), 255)
    assert {"brightness": 0.5, "contrast": 0.5}.items() <= measure(to_picture(half)).items()
    image = draw()
    blurred = [image.filter(ImageFilter.GaussianBlur(radius)) for radius in (0.5, 1, 3)]
    sharpness = [measure(to_picture(each))["sharpness"] for each in (image, *blurred)]
    assert sharpness == sorted(sharpness, reverse=True)
    assert sharpness[0] > 10 * sharpness[-1]


def test_sharpness_is_the_variance_of_the_whole_laplacian() -> None:
    levels = np.indices((32, 20)).sum(0) % 2 * 255
    middle = levels[1:-1, 1:-1]
    around = levels[:-2, 1:-1] + levels[2:, 1:-1] + levels[1:-1, :-2] + levels[1:-1, 2:]
    checked = measure(to_picture(Image.fromarray(levels.astype("uint8"))))
    assert checked["sharpness"] == pytest.approx((around - 4 * middle).var())


def write_png(levels: Any) -> bytes:
    """Write a PNG with 16 bits, which Pillow writes only for gray levels."""

    def pack(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    height, width, channels = levels.shape
    head = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    chunks = pack(b"IHDR", head) + pack(b"IDAT", zlib.compress(rows)) + pack(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize("kind", ["PNG", "PNG RGB", "PNG RGBA", "TIFF", "TIFF, white is 0"])
def test_levels_of_16_bits_are_scaled(run: type[StageRun], kind: str) -> None:
    channels = {"PNG RGB": 3, "PNG RGBA": 4}.get(kind, 1)
    levels = np.random.default_rng(0).integers(0, 1 << 16, (8, 9, channels), "uint16")
    expected = levels[..., :3] / 257
    if channels == 4:
        expected = 255 - (255 - expected) * levels[..., 3:] / 65535
    content = write_png(levels)
    if kind.startswith("TIFF"):
        black, white = (struct.pack("<HHII", 262, 3, 1, zero) for zero in (1, 0))
        content = encode(Image.fromarray(levels[..., 0]), "TIFF")
        assert black in content
        if "white" in kind:
            content, expected = content.replace(black, white), 255 - expected
    (table,) = run("decode-images").tables([{"key": "a", "content": content}])
    found = np.frombuffer(table.to_pylist()[0]["picture"]["rgb"], "uint8").reshape(8, 9, 3)
    assert np.abs(found - expected).max() < 1.5


# Direction of columns, and quarter turns, by EXIF orientation.
TURNS = ((1, 0), (-1, 0), (1, 2), (-1, 2), (-1, 1), (1, -1), (-1, -1), (1, 1))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_each_orientation_gives_the_upright_pixels(run: type[StageRun], kind: str) -> None:
    levels = np.stack([*np.indices((24, 40)) * 6, np.zeros((24, 40))], -1).astype("uint8")
    for number, (step, quarters) in enumerate(TURNS, 1):
        exif = Image.Exif()
        exif[0x0112] = number
        content = encode(Image.fromarray(levels), kind, exif=exif, lossless=True, subsampling=0)
        rows = [{"key": "a", "content": content}]
        (whole,), (small,) = (run("decode-images", longest=each).tables(rows) for each in (40, 8))
        expected = np.rot90(levels[:, ::step], quarters).astype(int)
        found = np.frombuffer(whole.to_pylist()[0]["picture"]["rgb"], "uint8")
        assert whole["height"].to_pylist() == small["height"].to_pylist() == [len(expected)]
        picture = small["picture"][0].as_py()
        assert (picture["width"] == 8) == (number < 5)
        assert np.abs(found.reshape(expected.shape) - expected).max() < 20, number


@given(
    levels=st.one_of(
        arrays("int32", (2, 3)),
        arrays("float32", (2, 3), elements=st.floats(-(2.0**90), 2.0**90, width=32)),
    )
)
def test_grey_of_32_bits_goes_from_its_darkest_to_its_brightest(levels: Any) -> None:
    content = encode(Image.fromarray(levels), "TIFF")
    (table,) = StageRun("decode-images").tables([{"key": "a", "content": content}])
    grey = np.frombuffer(table.to_pylist()[0]["picture"]["rgb"], "uint8")[::3].reshape(2, 3)
    exact = levels.astype("float64") - levels.min()
    assert np.abs(grey - 255 * exact / (exact.max() or 1)).max() <= 0.51


@pytest.mark.parametrize("level", [np.nan, np.inf])
def test_a_gray_level_of_nan_is_reported(run: type[StageRun], level: float) -> None:
    content = encode(Image.fromarray(np.array([[level, 1]], "float32")), "TIFF")
    with pytest.raises(UnreadableFileError, match=r"a: not a decodable image \(its levels go"):
        run("decode-images", badImages="fail").tables([{"key": "a", "content": content}])


def pack_ico(png: bytes) -> bytes:
    """Return an icon with a declared size of 16 pixels, whatever the content."""
    head = struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(png), 22)
    return head + png


def pack_icns(png: bytes) -> bytes:
    """Return another kind of icon, with a declared size of 128 pixels."""
    entry = b"ic07" + struct.pack(">I", 8 + len(png)) + png
    return b"icns" + struct.pack(">I", 8 + len(entry)) + entry


@pytest.mark.parametrize("pack", [pack_ico, pack_icns])
def test_an_icon_larger_than_declared_is_not_decoded(
    run: type[StageRun], monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    content = pack(encode(Image.new("L", (300, 300))))
    loaded = []
    load = PngImageFile.load

    def watch(image: PngImageFile) -> Any:
        loaded.append(image.size)
        return load(image)

    monkeypatch.setattr(PngImageFile, "load", watch)
    stage = run("decode-images", maxPixels=20_000)
    assert [] == stage.tables([{"key": "a", "content": content}])
    assert {"dropped: too large": 1} == stage.counters
    assert (300, 300) not in loaded


def test_the_limit_is_that_of_the_stage_and_exact(run: type[StageRun]) -> None:
    before = Image.MAX_IMAGE_PIXELS
    content = encode(Image.new("L", (100, 100)))
    small, large = (run("decode-images", maxPixels=number) for number in (9_999, 10_000))
    assert [0, 1] == [
        len(each.tables([{"key": "a", "content": content}])) for each in (small, large)
    ]
    assert Image.MAX_IMAGE_PIXELS == before


def test_only_one_image_at_a_time_is_in_memory_beside_the_tables(run: type[StageRun]) -> None:
    content = encode(Image.new("L", (1000, 1000)))
    stage = run("decode-images")
    tracemalloc.start()
    tables = stage.tables([{"key": str(at), "content": content} for at in range(10)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(tables) == 10
    held = sum(table["picture"].nbytes for table in tables)  # the tables keep Pillow's bytes
    assert peak - held < 10_000_000  # an image has 3 MB


def test_too_little_memory_is_not_the_fault_of_the_image(
    run: type[StageRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("strandline_packs.images.decode_images.to_picture", run_out)
    with pytest.raises(MemoryError):
        run("decode-images").tables([{"key": "a", "content": encode(draw(8, 8))}])


def test_images_of_packages_go_through_all_stages(run: type[StageRun]) -> None:
    folder = Path(ray.__file__).parent
    paths = [path for kind in ("png", "ico") for path in sorted(folder.rglob(f"*.{kind}"))]
    assert paths
    rows = [{"key": path.name, "content": path.read_bytes()} for path in paths]
    decoded = run("decode-images").tables(rows)
    assert len(paths) == len(decoded)
    for table in decoded:
        shrunk = run("resize-images", longest=24).table(table)
        (row,) = run("measure-images").rows(shrunk)
        assert ["key", "format", "width", "height", "hash", "brightness", "contrast"] == list(row)[
            :7
        ]
        assert 0 <= row["brightness"] <= 1
        assert row["width"] == table["width"][0].as_py()
        (kept,) = run("measure-images", keepPictures=True).rows(shrunk)
        assert max(kept["picture"]["width"], kept["picture"]["height"]) <= 24
        assert (24, 24) >= to_image(kept["picture"]).size


def test_without_the_library_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"not installed .*; pip install 'strandline\[images\]'$"):
        StageRun("decode-images")
