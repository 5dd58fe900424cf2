"""Files with several images: the first is decoded, the others are counted."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from stage_runs import StageRun

COUNT = "left out: frames after the first"
COLOURS = ["red", "green", "blue"]


def save(kind: str, colours: list[str], **values: Any) -> bytes:
    first, *others = (Image.new("RGB", (16, 16), colour) for colour in colours)
    file = io.BytesIO()
    first.save(file, kind, save_all=bool(others), append_images=others, **values)
    return file.getvalue()


def decode(*contents: bytes, **columns: list[Any]) -> tuple[list[Any], dict[str, int]]:
    run = StageRun("decode-images")
    rows = [
        {"key": str(at), "content": content}
        | {name: column[at] for name, column in columns.items()}
        for at, content in enumerate(contents)
    ]
    return [row for table in run.tables(rows) for row in table.to_pylist()], run.counters


@pytest.mark.parametrize("kind", ["gif", "tiff", "webp", "png", "mpo"])
def test_frames_after_the_first_are_counted(kind: str) -> None:
    whole = save(kind, COLOURS)
    rows, counts = decode(whole, whole, save(kind, COLOURS[:1]))
    assert {COUNT: 4} == counts
    assert 3 == len(rows)
    red, green, blue = rows[0]["picture"]["rgb"][:3]
    assert red > 200
    assert max(green, blue) < 60


def test_a_damaged_later_frame_does_not_drop_the_first() -> None:
    whole = save("tiff", COLOURS)
    at = int.from_bytes(whole[4:8], "little")
    size = int.from_bytes(whole[at : at + 2], "little")
    link = at + 2 + 12 * size  # the second directory
    broken = whole[:link] + (len(whole) - 1).to_bytes(4, "little") + whole[link + 4 :]
    rows, counts = decode(broken)
    assert 1 == len(rows)
    assert {"left out: frames that can't be counted": 1} == counts


def test_layers_of_an_image_and_sizes_of_an_icon_are_not_frames() -> None:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "ico", sizes=[(16, 16), (64, 64)])
    assert {} == decode(file.getvalue())[1]


def test_other_columns_of_a_sample_are_counted_except_file_metadata() -> None:
    red, blue = save("png", ["red"]), save("png", ["blue"])
    _, counts = decode(red, blue, txt=[b"a cat", None], caption=["a", "b"], path=["a", "b"])
    assert {"left out: column 'txt'": 1, "left out: column 'caption'": 2} == counts
