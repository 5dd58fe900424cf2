"""Stages that gather statistics: their reports, and that they change no row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gatherings import Gathering
from stage_runs import StageRun
from strandline.data.tables.charts import draw_bars, draw_histogram, format_number

TEXTS = ["one two  three", "", "Ein Wort-Paar", "我们出海", None, "it's 3.5"]
TABLES = [
    pa.table(
        {
            "text": pa.array(TEXTS[at : at + 3], pa.string()),
            "language": pa.array(
                ["en", None, "de"] if at == 0 else ["zh", "en", "en"], pa.string()
            ),
            "score": pa.array([0.5, None, float("nan")] if at == 0 else [2.0, -1.0, 0.0]),
            "kept": [True, False, True],
            "tags": [["a"], [], ["b"]],
        }
    )
    for at in (0, 3)
]
STAGES: dict[str, dict[str, Any]] = {
    "measure-fields": {"ranges": {"score": [0, 2]}},
    "count-tokens": {"by": "language"},
    "count-languages": {},
}
every_stage = pytest.mark.parametrize("use", STAGES)


def read_xml(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own


def play(folder: Path, use: str, **values: Any) -> tuple[Gathering, Path]:
    gathering = Gathering(folder, use, **(STAGES[use] | values))
    return gathering, gathering.merge(gathering.pieces(TABLES))


@every_stage
def test_rows_pass_unchanged(use: str, tmp_path: Path) -> None:
    gathering, _ = play(tmp_path, use)
    assert TABLES[0] is gathering.passed[0]
    assert TABLES[1] is gathering.passed[1]


@every_stage
def test_pieces_may_be_joined_in_steps(use: str, tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, use, **STAGES[use])
    pieces = gathering.pieces([*TABLES, TABLES[0], TABLES[1]])
    whole = gathering.read(gathering.merge(pieces))
    first = gathering.merge(pieces[:2])
    assert whole == gathering.read(gathering.merge([first, *pieces[2:]]))
    assert whole == gathering.read(gathering.merge([first, gathering.merge(pieces[2:])]))
    assert whole != gathering.read(first)


@every_stage
def test_empty_statistics_are_also_a_file(use: str, tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, use, **STAGES[use])
    assert StageRun(use, **STAGES[use]).stage.flush() is None
    artifacts = gathering.artifacts(gathering.merge([]))
    assert 0 == pq.read_table(artifacts[1]).num_rows
    assert gathering.panel(artifacts) is None
    assert gathering.panel([]) is None


@every_stage
def test_json_and_parquet_have_the_same_rows(use: str, tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, use)
    json_file, parquet_file = gathering.artifacts(merged)
    assert (json_file.suffix, parquet_file.suffix) == (".json", ".parquet")
    rows = gathering.read(gathering.merge([merged]))
    assert rows
    assert rows == pq.read_table(parquet_file).to_pylist()
    assert list(rows[0]) == pq.read_schema(parquet_file).names


@every_stage
def test_the_panel_is_a_self_contained_fragment(use: str, tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, use)
    artifacts = gathering.artifacts(merged)
    panel = gathering.panel(artifacts)
    assert panel is not None
    published = [path.rename(path.with_name(f"some-stage.{path.name}")) for path in artifacts]
    assert panel == gathering.panel(published)
    page = read_xml(f"<div>{panel}</div>")
    assert {"figure"} == {each.tag for each in page}
    assert page.findall(".//rect/title")
    assert not re.search(r"script|href|http|url\(|#[0-9a-f]{3}", panel)
    assert {"currentColor"} == {each.get("fill") for each in page.iter() if each.get("fill")}


def test_fields_are_measured(tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, "measure-fields")
    rows = {row["field"]: row for row in gathering.read(merged)}
    assert ["kept", "language", "score", "text"] == list(rows)
    score = rows["score"]
    assert ("number", 6, 1, 1) == tuple(
        score[name] for name in ("kind", "rows", "nulls", "not_finite")
    )
    assert (-1.0, 2.0, 0.375, 4) == tuple(
        score[name] for name in ("min", "max", "mean", "distinct")
    )
    ends = [score["histogram"][0], score["histogram"][-1]]
    assert [{"low": None, "high": 0.0, "count": 1}, {"low": 2.0, "high": None, "count": 1}] == ends
    assert (0.0, 1.0, 2) == tuple(rows["kept"][name] for name in ("min", "max", "distinct"))
    text = rows["text"]
    assert ("text", 0.0, 14.0, 1) == tuple(text[name] for name in ("kind", "min", "max", "nulls"))


def test_only_chosen_fields_are_measured_and_must_hold_numbers_or_text(tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, "measure-fields", columns=["score"])
    assert ["score"] == [row["field"] for row in gathering.read(merged)]
    with pytest.raises(TypeError, match=r"'tags' holds list<.*>, neither numbers nor text"):
        StageRun("measure-fields", columns=["tags"]).table(TABLES[0])
    with pytest.raises(ValueError, match="no column 'age'"):
        StageRun("measure-fields", columns=["age"]).table(TABLES[0])
    with pytest.raises(ValueError, match="the range of 'age' must be increasing, not from 9 to 9"):
        StageRun("measure-fields", ranges={"age": [9, 9]})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 2, None], pa.uint64()), "number"),
        (pa.array(["1.50", None], pa.string()).cast(pa.decimal128(5, 2)), "number"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "text"),
        (pa.array(["a"], pa.large_string()), "text"),
        (pa.array([b"a"]), None),
    ],
)
def test_arrow_types_are_treated_as_numbers_or_text_or_ignored(
    tmp_path: Path, values: pa.Array, kind: str | None
) -> None:
    gathering = Gathering(tmp_path, "measure-fields")
    (piece,) = gathering.pieces([pa.table({"field": values})])
    if kind is None:
        assert b"" == piece.read_bytes()
        return
    (row,) = gathering.read(gathering.merge([piece]))
    assert (kind, len(values)) == (row["kind"], row["rows"])


def test_a_field_of_two_kinds_has_two_rows(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "measure-fields")
    pieces = gathering.pieces([pa.table({"id": [1]}), pa.table({"id": ["a:b"]})])
    rows = gathering.read(gathering.merge(pieces))
    assert [("id", "number"), ("id", "text")] == [(row["field"], row["kind"]) for row in rows]


@pytest.mark.parametrize("columns", [["age"], None], ids=["named", "all"])
def test_a_field_that_is_empty_in_one_task_keeps_its_type_from_others(
    tmp_path: Path, columns: list[str] | None
) -> None:
    tables = [pa.table({"age": column}) for column in ([1, 2], pa.nulls(8), pa.nulls(1))]
    gathering = Gathering(tmp_path, "measure-fields", columns=columns, ranges={"age": [0, 9]})
    pieces = gathering.pieces(tables)
    (row,) = gathering.read(gathering.merge(pieces))
    assert ("number", 11, 9, 2.0) == tuple(row[name] for name in ("kind", "rows", "nulls", "max"))


@pytest.mark.parametrize("elsewhere", [[], [pa.array([[1]])]], ids=["nowhere", "a list"])
def test_an_unmeasured_field_is_reported_only_if_it_was_named(
    tmp_path: Path, elsewhere: list[pa.Array]
) -> None:
    tables = [pa.table({"age": column, "n": [1]}) for column in (pa.nulls(1), *elsewhere)]
    gathering = Gathering(tmp_path, "measure-fields")
    merged = gathering.merge(gathering.pieces(tables))
    assert ["n"] == [row["field"] for row in gathering.read(merged)]


def test_a_named_field_that_is_always_empty_is_reported(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "measure-fields", columns=["age"], ranges={"age": [0, 9]})
    tables = [pa.table({"age": pa.nulls(count)}) for count in (8, 1)]
    merged = gathering.merge(gathering.pieces(tables))
    (row,) = gathering.read(merged)
    assert ("empty", 9, 9, None) == tuple(row[name] for name in ("kind", "rows", "nulls", "max"))
    assert "9 empty" in str(gathering.panel(gathering.artifacts(gathering.merge([merged]))))


def test_histograms_of_a_range_that_was_changed_are_kept_apart(tmp_path: Path) -> None:
    table = pa.table({"a:b": [1, 30]})
    choices: list[dict[str, Any]] = [{}, {"a:b": [0, 20]}, {"a:b": [0, 40]}, {}]
    stages = [Gathering(tmp_path, "measure-fields", ranges=ranges) for ranges in choices]
    pieces = [piece for stage in stages for piece in stage.pieces([table])]
    rows = stages[0].read(stages[0].merge(pieces))
    assert [("a:b", "number", 2), ("a:b", "number", 2), ("a:b", "number", 4)] == [
        (row["field"], row["kind"], row["rows"]) for row in rows
    ]
    assert [None, 31.25, 32.0] == [row["histogram"][-1]["high"] for row in rows]


@pytest.mark.parametrize(
    "ends", [(0, float("inf")), (float("-inf"), 0), (-1.7e308, 1.7e308)], ids=str
)
def test_a_range_without_an_end_is_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="the range of 'age' must be finite, not from "):
        StageRun("measure-fields", ranges={"age": ends})


def test_the_greatest_numbers_can_be_shown(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "measure-fields")
    pieces = gathering.pieces([pa.table({"x": [1.7e308, -1.7e308] * 500})])
    (row,) = gathering.read(gathering.merge(pieces))
    assert pytest.approx((-1e290, 1e290)) == (row["p25"], row["p75"])
    assert (-1.7e308, 1.7e308) == (row["min"], row["max"])


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([2000, None, 2000], ["", "2000"]),
        ([True, False, None], ["", "false", "true"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_groups_and_languages_need_not_be_text(
    tmp_path: Path, groups: Any, expected: list[str]
) -> None:
    table = pa.table({"text": ["a b", "c", ""], "group": groups})
    tokens = Gathering(tmp_path, "count-tokens", by="group")
    rows = tokens.read(tokens.merge(tokens.pieces([table])))
    assert expected == [row["group"] for row in rows]
    languages = Gathering(tmp_path, "count-languages", column="group")
    rows = languages.read(languages.merge(languages.pieces([table])))
    assert expected == sorted(row["language"] for row in rows)


@pytest.mark.parametrize("use", ["count-tokens", "count-languages", "sketch-texts"])
@pytest.mark.parametrize("values", [[1, 2], [b"a b", b"c"]])
def test_a_column_without_text_is_reported(use: str, values: list[Any]) -> None:
    table = pa.table({"text": values, "key": ["a", "b"], "language": ["en", "en"]})
    with pytest.raises(TypeError, match=r"^the column 'text' holds (int64|binary), not text$"):
        StageRun(use).table(table)


def test_groups_without_a_text_form_are_reported() -> None:
    table = pa.table({"text": ["a"], "group": [["b"]]})
    with pytest.raises(TypeError, match=r"'group' holds list<.*>, which can't be written as text"):
        StageRun("count-tokens", by="group").table(table)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [("words", 3 + 0 + 2 + 4 + 0 + 3), ("whitespace", 3 + 0 + 2 + 1 + 0 + 2)],
)
def test_tokens_are_counted(tmp_path: Path, tokens: str, expected: int) -> None:
    gathering, merged = play(tmp_path, "count-tokens", tokens=tokens, by=None)
    (row,) = gathering.read(merged)
    assert ("", 6, expected) == (row["group"], row["documents"], row["tokens"])
    assert sum(len(text or "") for text in TEXTS) == row["characters"]
    assert 6 == sum(each["count"] for each in row["histogram"])


def test_tokens_are_counted_apart_by_a_column(tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, "count-tokens")
    rows = gathering.read(merged)
    expected = {"": (1, 0), "de": (1, 2), "en": (3, 6), "zh": (1, 4)}
    assert expected == {row["group"]: (row["documents"], row["tokens"]) for row in rows}


def test_languages_are_counted_most_frequent_first(tmp_path: Path) -> None:
    gathering, merged = play(tmp_path, "count-languages")
    rows = [tuple(row.values()) for row in gathering.read(merged)]
    assert [("en", 3, 22), ("", 1, 0), ("de", 1, 13), ("zh", 1, 4)] == rows
    with pytest.raises(ValueError, match="no column 'lang'"):
        StageRun("count-languages", column="lang").table(TABLES[0])


def test_a_chart_always_has_few_bars() -> None:
    bins = [{"low": at, "high": at + 1, "count": at} for at in range(960)]
    chart = read_xml(draw_histogram("a & <b>", bins))
    bars = chart.findall(".//rect")
    assert 80 == len(bars)
    assert "a & <b>" == chart.findtext("figcaption")
    heights = [float(bar.get("height", "")) for bar in bars]
    assert heights == sorted(heights)
    assert max(heights) == 160.0
    assert "0 to 12: 66" == bars[0].findtext("title")


def test_horizontal_bars_have_names_and_numbers() -> None:
    names = {"<none>": 12_345, "de": 1, "a very long name of something": 0}
    chart = read_xml(draw_bars("Languages", names))
    assert ["<none>: 12,345", "de: 1", "a very long name of something: 0"] == [
        bar.findtext("title") for bar in chart.findall(".//rect")
    ]
    assert "a very long name of s…" in [text.text for text in chart.findall(".//text")]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(None, "…"), (3.0, "3"), (1234567, "1,234,567"), (0.12345, "0.1235"), (1e300, "1e+300")],
)
def test_numbers_are_spelled_for_people(number: float | None, expected: str) -> None:
    assert expected == format_number(number)
