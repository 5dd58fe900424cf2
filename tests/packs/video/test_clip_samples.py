"""Statistics of `filter-video`: counts of kept and dropped clips, and images of some."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatherings import Gathering
from stage_runs import StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline_packs.images.pictures import PICTURE, load_pillow
from strandline_packs.images.sampling.samples import (
    LONGEST,
    SHOWN,
    ClipSample,
    SampledClip,
    choose_clip,
    draw_jpeg,
    draw_samples,
    rank_clip,
)
from strandline_packs.video.filter_video import FilterVideo

CLIPS = pa.schema(
    [("clip", pa.string()), ("black_share", pa.float64()), ("frames", pa.list_(PICTURE))]
)
BOUNDS: dict[str, Any] = {"bounds": {"black_share": [None, 0.5]}}

shown = st.builds(
    SampledClip,
    st.binary(min_size=1, max_size=2),
    st.text(max_size=2),
    st.just(b""),
    st.binary(max_size=1),
    st.tuples(st.text(max_size=2)),
)


@st.composite
def samples(draw: st.DrawFn) -> ClipSample:
    kept = draw(st.sets(shown, max_size=SHOWN))
    return ClipSample(draw(st.integers(len(kept), 10**9)), tuple(sorted(kept)))


def paint(*levels: int, width: int = 64, height: int = 32) -> list[dict[str, Any]]:
    """Draw frames of one color each, with a dark border on the left."""
    frames = []
    for level in levels:
        pixels = np.full((height, width, 3), (level, 128, 255 - level), np.uint8)
        pixels[:, : width // 4] = 0
        frames.append({"width": width, "height": height, "rgb": pixels.tobytes()})
    return frames


def make_clips(*rows: tuple[str, float | None, list[dict[str, Any]]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {
            field.name: pa.array(list(each), field.type)
            for field, each in zip(CLIPS, columns, strict=True)
        }
    )


def look(folder: Path, *tables: pa.Table, **values: Any) -> dict[str, dict[str, Any]]:
    """Return the rows of the artifact by outcome, for consecutive tables."""
    gathering = Gathering(folder, "filter-video", **BOUNDS, **values)
    rows = gathering.read(gathering.merge(gathering.pieces(tables)))
    return {row["outcome"]: row for row in rows}


def open_jpeg(text: str) -> Any:
    return load_pillow("Image").open(io.BytesIO(base64.b64decode(text)))


@given(a=samples(), b=samples(), c=samples())
def test_law_samples_merge_in_any_order(a: ClipSample, b: ClipSample, c: ClipSample) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert (a + b).number == a.number + b.number
    assert list((a + b).shown) == sorted({*a.shown, *b.shown})[:SHOWN]


@given(sample=samples())
def test_law_a_dumped_sample_is_read_back(sample: ClipSample) -> None:
    assert sample == ClipSample.parse(sample.dump())


def test_pieces_of_earlier_versions_are_read() -> None:
    sample = ClipSample(3, (SampledClip(b"r", "a", b"jpeg"),))
    assert sample == ClipSample.parse([3, [[b"r", "a", b"jpeg"]]])
    rows = [{"outcome": "kept", "clips": 1, "shown": [{"clip": "a", "jpeg": "anBlZw=="}]}]
    assert "anBlZw==" in draw_samples(rows)


@given(names=st.lists(st.text(), min_size=1, max_size=9, unique=True))
def test_law_the_shown_clip_depends_only_on_names(names: list[str]) -> None:
    found = names[choose_clip(names)]
    assert found == names[::-1][choose_clip(names[::-1])]
    assert all(rank_clip(found) <= rank_clip(name) for name in names)


def test_kept_and_dropped_clips_are_counted_and_shown(tmp_path: Path) -> None:
    clips = make_clips(
        ("a", 0.1, paint(10, 200, 250)),
        ("b", 0.9, paint(90)),
        ("c", None, []),
        ("d", 0.7, paint(90)),
    )
    found = look(tmp_path, clips, make_clips(("e", 0.9, paint(90))), pictures=True)
    assert {"kept": 1, "dropped: black_share above 0.5": 3, "dropped: no black_share": 1} == {
        outcome: row["clips"] for outcome, row in found.items()
    }
    (dropped,) = [row["shown"] for outcome, row in found.items() if "above" in outcome]
    assert {"e", min("bd", key=rank_clip)} == {each["clip"] for each in dropped}  # one per task
    nothing = {"clip": "c", "jpeg": "", "mp3": "", "texts": []}
    assert [nothing] == found["dropped: no black_share"]["shown"]
    (kept,) = found["kept"]["shown"]
    image = np.asarray(open_jpeg(kept["jpeg"]), float)
    assert np.abs(image[:, 24:] - (200, 128, 55)).max() < 12
    assert image[:, :10].max() < 24


def test_the_shown_clip_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = [(name, 0.1, paint(9)) for name in "abcdef"]
    for name, each in (("forward", rows), ("back", rows[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        (shown,) = look(folder, make_clips(*each), pictures=True)["kept"]["shown"]
        assert min("abcdef", key=rank_clip) == shown["clip"]


def test_only_some_of_many_are_shown(tmp_path: Path) -> None:
    names = [f"{at:03}" for at in range(40)]
    found = look(tmp_path, *(make_clips((name, 0.0, paint(9))) for name in names), pictures=True)
    row = found["kept"]
    assert len(names) == row["clips"]
    assert sorted(names, key=rank_clip)[:SHOWN] == [each["clip"] for each in row["shown"]]


def test_clips_are_counted_even_if_none_is_shown(tmp_path: Path) -> None:
    table = make_clips(("a", 0.1, []), ("b", 0.9, [])).select(["black_share"])
    found = look(tmp_path, table)
    assert [(1, []), (1, [])] == [(row["clips"], row["shown"]) for row in found.values()]
    with pytest.raises(MissingColumnError, match="'clip'"):
        StageRun("filter-video", **BOUNDS, pictures=True).rows(table)


def test_clips_marked_by_an_earlier_stage_are_not_counted(tmp_path: Path) -> None:
    clips = make_clips(("a", 0.1, paint(9)), ("b", 0.9, paint(9)), ("c", 0.9, paint(9)))
    marked = clips.append_column("why", pa.array([None, "earlier", None]))
    found = look(tmp_path, marked, pictures=True, reasonColumn="why")
    assert {"kept": 1, "dropped: black_share above 0.5": 1} == {
        outcome: row["clips"] for outcome, row in found.items()
    }
    assert ["c"] == [each["clip"] for each in found["dropped: black_share above 0.5"]["shown"]]


@pytest.mark.parametrize(
    ("width", "height", "size"),
    [(1, 1, (1, 1)), (641, 359, (120, 67)), (90, 4000, (3, 120)), (33, 21, (33, 21))],
)
def test_a_picture_is_small_and_keeps_its_proportions(
    width: int, height: int, size: tuple[int, int]
) -> None:
    (frame,) = paint(77, width=width, height=height)
    raw = draw_jpeg([frame])
    image = open_jpeg(base64.b64encode(raw).decode())
    assert size == image.size
    assert max(size) <= LONGEST
    assert raw == draw_jpeg([frame])


def test_the_panel_shows_images_and_escapes_names(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "filter-video", **BOUNDS, pictures=True)
    clips = make_clips(("videos/<b>.mp4#0", 0.1, paint(9)), ("c", 0.9, []))
    artifacts = gathering.artifacts(gathering.merge(gathering.pieces([clips])))
    panel = gathering.panel(artifacts) or ""
    assert 1 == panel.count('<img src="data:image/jpeg;base64,')
    assert "<figcaption" in panel
    assert ">&lt;b&gt;.mp4#0</figcaption>" in panel
    assert "<b>" not in panel
    assert "dropped: black_share above 0.5: 1" in panel
    assert FilterVideo.panel([]) is None
