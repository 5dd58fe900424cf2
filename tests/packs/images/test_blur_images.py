"""Faces and text are found, blurred beyond recognition, and counted.

Tests find faces with a stand-in for YuNet: white squares of 32 pixels.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.packages import load_module
from strandline_packs.images.blur_images import blur_areas
from strandline_packs.images.pictures import to_image, to_picture
from strandline_packs.pdf.ocr_engine import OcrEngine
from tiny_models import make_bright_faces, make_mean

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


def test_the_model_is_part_of_the_recipe_and_must_be_yunet(model: str, tmp_path: Path) -> None:
    path, digests = tmp_path / "faces.onnx", []
    path.write_bytes(Path(model).read_bytes())
    stage = StageRun("blur-images", model=str(path), blur=["faces"]).stage
    digests.append(stage.digest_inputs()["model"])
    for write in (make_mean, lambda path: path.write_bytes(b"no model")):
        write(path)
        digests.append(stage.digest_inputs()["model"])
        with pytest.raises(UnreadableFileError, match=r"faces\.onnx: not the model YuNet"):
            StageRun("blur-images", blur=["faces"], model=str(path))
    assert 3 == len({*digests})


def test_without_a_model_the_cascade_of_opencv_4_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_cascade(path: str) -> Any:
        assert path.endswith("/haarcascade_frontalface_alt.xml")
        return SimpleNamespace(detectMultiScale=lambda *_: np.array([[8, 16, 20, 20]], "int32"))

    monkeypatch.setattr(cv2, "CascadeClassifier", open_cascade, raising=False)
    row, _ = blur(draw_squares((64, 64)), blur=["faces"], grow=0.1)
    assert [[6, 14, 30, 38]] == row["blurred"]
    monkeypatch.delattr(cv2, "CascadeClassifier")
    with pytest.raises(ImportError, match=r"no Haar cascade: set `model`"):
        StageRun("blur-images")
