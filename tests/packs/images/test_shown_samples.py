"""Samples of `show-samples`: rows by the value of a column, with their pictures and texts."""

from __future__ import annotations

import base64
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatherings import Gathering
from strandline.data.tables.columns import MissingColumnError
from strandline_packs.images.pictures import PICTURE, load_pillow
from strandline_packs.images.sampling.samples import SHOWN, ClipSample, rank_clip
from strandline_packs.images.sampling.show_samples import OTHER, _fold


def paint(width: int, height: int, color: str, format: str = "PNG") -> bytes:  # noqa: A002
    file = io.BytesIO()
    load_pillow("Image").new("RGB", (width, height), color).save(file, format)
    return file.getvalue()


def show(folder: Path, *tables: pa.Table, **values: Any) -> dict[str, dict[str, Any]]:
    """Return the rows of the artifact by outcome."""
    gathering = Gathering(folder, "show-samples", **values)
    merged = gathering.merge(gathering.pieces(tables))
    assert gathering.passed == list(tables)  # all rows pass unchanged
    return {row["outcome"]: row for row in gathering.read(merged)}


def measure(jpeg: str) -> tuple[int, int]:
    size: tuple[int, int] = load_pillow("Image").open(io.BytesIO(base64.b64decode(jpeg))).size
    return size


def test_rows_are_counted_and_shown_by_value(tmp_path: Path) -> None:
    pages = pa.table(
        {
            "key": ["a#1", "a#2", "a#3", "a#4"],
            "method": ["ocr", "text-layer", "ocr", None],
            "page_image": [paint(600, 960, "red"), None, None, b"\x89PNG broken"],
            "text": ["Read.", "x" * 700, "More.", "None."],
            "confidence": [0.91234, 1.0, 0.8, None],
        }
    )
    found = show(tmp_path, pages, by="method", columns=["page_image", "text", "confidence"])
    assert {"ocr": 2, "text-layer": 1, "no value": 1} == {
        name: row["clips"] for name, row in found.items()
    }
    (layer,) = found["text-layer"]["shown"]
    texts = ["x" * 600 + "…"]
    assert {"clip": "a#2, confidence 1", "jpeg": "", "mp3": "", "texts": texts} == layer
    (broken,) = found["no value"]["shown"]
    assert ("", ["None."]) == (broken["jpeg"], broken["texts"])
    (read,) = found["ocr"]["shown"]
    captions = {"a#1": "a#1, confidence 0.9123", "a#3": "a#3, confidence 0.8"}
    assert captions[min(captions, key=rank_clip)] == read["clip"]


def test_pictures_of_a_row_are_side_by_side_and_small(tmp_path: Path) -> None:
    picture = {"width": 300, "height": 200, "rgb": bytes(300 * 200 * 3)}
    pairs = pa.table(
        {
            "key": ["a"],
            "picture": pa.array([picture], PICTURE),
            "stays_picture": [paint(300, 100, "white", "JPEG")],
        }
    )
    (shown,) = show(tmp_path, pairs, columns=["picture", "stays_picture"])["rows"]["shown"]
    assert (480, 160) == measure(shown["jpeg"])  # 600 × 200 pixels before


def test_a_column_with_many_values_takes_bounded_memory(tmp_path: Path) -> None:
    tables = [
        pa.table({"key": [f"{at}"], "by": [f"{at % 90:02}"], "text": ["t"]}) for at in range(180)
    ]
    found = show(tmp_path, *tables, by="by", columns=["text"])
    assert {f"{at:02}" for at in range(50)} | {OTHER} == set(found)
    assert (2, 80) == (found["07"]["clips"], found[OTHER]["clips"])
    assert SHOWN == len(found[OTHER]["shown"])


@given(values=st.lists(st.sampled_from([f"{at:03}" for at in range(120)]), max_size=300))
def test_law_folding_does_not_depend_on_the_order(values: list[str]) -> None:
    counts = {name: ClipSample(number) for name, number in Counter(values).items()}
    half = len(values) // 2
    first, last = (
        _fold({name: ClipSample(number) for name, number in Counter(part).items()})
        for part in (values[:half], values[half:])
    )
    both = {
        name: first.get(name, ClipSample(0)) + last.get(name, ClipSample(0))
        for name in first | last
    }
    assert _fold(counts) == _fold(both)


def test_the_panel_shows_a_page_beside_its_text(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "show-samples", columns=["page", "text"])
    page = pa.table(
        {"key": ["d/<i>#1"], "page": [paint(60, 96, "red")], "text": ["<b>Hi</b>\nyou"]}
    )
    artifacts = gathering.artifacts(gathering.merge(gathering.pieces([page])))
    panel = gathering.panel(artifacts) or ""
    assert "&lt;b&gt;Hi&lt;/b&gt;\nyou</p>" in panel
    assert 1 == panel.count('<img src="data:image/jpeg;base64,')
    assert ">&lt;i&gt;#1</figcaption>" in panel
    assert "<b>" not in panel


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    table = pa.table({"key": ["a"], "text": ["t"]})
    with pytest.raises(MissingColumnError, match="'page'"):
        show(tmp_path, table, columns=["page"])
