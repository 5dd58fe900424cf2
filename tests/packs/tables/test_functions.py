"""Stages that call the user's function: rows, tables, and drop reasons."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stage_runs import StageRun
from strandline import Pipeline
from strandline.stages import Files, MapRows, ParquetSink
from strandline_api.documents.problems import SpecError

ROWS = [{"key": "a", "text": "one two", "n": 1}, {"key": "b", "text": "three", "n": None}]


def add_length(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "length": len(row["text"])}


def shout(frame: Any) -> Any:
    return frame.assign(text=frame["text"].str.upper())


def test_a_row_keeps_the_types_of_its_columns(run: type[StageRun]) -> None:
    table = pa.table({"key": ["a"], "n": pa.array([1], pa.int8()), "no": pa.nulls(1, pa.string())})
    made = run("map-rows", function=lambda row: {**row, "m": 0.5}).table(table)
    assert made is not None
    assert made.schema == table.schema.append(pa.field("m", pa.float64()))


def test_rows_may_become_none_or_several(run: type[StageRun]) -> None:
    def split(row: dict[str, Any]) -> Any:
        words = row["text"].split()
        return [{"key": row["key"], "word": word} for word in words] if len(words) > 1 else None

    stage = run("map-rows", function=split)
    assert stage.rows(ROWS) == [{"key": "a", "word": "one"}, {"key": "a", "word": "two"}]
    assert stage.counters == {"dropped: split": 1}
    assert run("map-rows", function=lambda _: None).table(ROWS) is None


def test_new_columns_can_have_declared_types(run: type[StageRun]) -> None:
    stage = run("map-rows", function=lambda row: {**row, "tags": []}, types={"tags": ["text"]})
    table = stage.table(ROWS)
    assert table is not None
    assert table.schema.field("tags").type == pa.list_(pa.string())


@pytest.mark.parametrize("frame", ["arrow", "daft", "datasets", "pandas", "polars"])
def test_frames_of_each_library_keep_types(run: type[StageRun], frame: str) -> None:
    if frame == "daft":  # its versions of other packages exclude those of the tests
        pytest.importorskip("daft")
    columns = {"text": ["x", None], "n": [1, None], "b": [b"x", None], "l": [[1], []]}
    table = pa.table(columns)
    assert run("map-table", function=lambda whole: whole, frame=frame).table(table) == table


def test_a_function_of_datasets_maps_and_filters(run: type[StageRun]) -> None:
    def shorten(rows: Any) -> Any:
        named = rows.map(lambda row: {"first": row["text"][:3]}, remove_columns=["text"])
        return named.filter(lambda row: row["n"] is not None)

    stage = run("map-table", function=shorten, frame="datasets")
    assert stage.rows(ROWS) == [{"key": "a", "n": 1, "first": "one"}]
    with pytest.raises(TypeError, match=r"returned dict, not datasets\.Dataset or None"):
        run("map-table", function=lambda rows: rows[:], frame="datasets").rows(ROWS)


def test_a_pandas_function_changes_a_table(run: type[StageRun]) -> None:
    assert run("map-table", function=shout).rows(ROWS) == [
        {"key": "a", "text": "ONE TWO", "n": 1},
        {"key": "b", "text": "THREE", "n": None},
    ]
    stage = run("map-table", function=lambda frame: None)
    assert stage.table(ROWS) is None
    assert stage.counters == {"dropped: lambda": 2}


def test_a_function_gives_the_reason_to_drop_a_row(run: type[StageRun]) -> None:
    def judge(text: str, n: int | None) -> bool | str:
        return "no number" if n is None else len(text) > 3

    stage = run("filter-rows", function=judge, columns=["text", "n"])
    assert [row["key"] for row in stage.rows(ROWS)] == ["a"]
    assert stage.counters == {"dropped: no number": 1}
    stage = run("filter-rows", function=partial(judge, n=1), reason="short")
    assert stage.rows([{"text": "abc"}, {"text": "abcd"}]) == [{"text": "abcd"}]
    assert stage.counters == {"dropped: short": 1}


@pytest.mark.parametrize("answer", [False, None, np.bool_(False)])
def test_a_row_that_is_not_accepted_is_dropped(run: type[StageRun], answer: object) -> None:
    stage = run("filter-rows", function=lambda _: answer, mark=True)
    (row,) = stage.rows([{"text": "abc"}])
    assert (row["filter_rows_keep"], row["filter_rows_reason"]) == (False, "lambda")


@pytest.mark.parametrize(
    ("use", "answer", "message"),
    [
        ("map-rows", 1, "`lambda` returned int, not a dictionary"),
        ("map-rows", [1], "`lambda` returned int, not a dictionary"),
        ("map-table", 1, "`lambda` returned int, not pandas.DataFrame or None"),
        ("filter-rows", 0.5, "`lambda` returned 0.5, not True, False, or the reason"),
        ("filter-rows", "", "`lambda` returned '', not True, False, or the reason"),
    ],
)
def test_other_answers_are_refused(
    run: type[StageRun], use: str, answer: object, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        run(use, function=lambda _: answer).rows([{"text": "abc"}])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("nothing", "must be `module:function`, not 'nothing'"),
        ("no_module:f", "No module named 'no_module'"),
        ("os:no_name", "'os' has no 'no_name'"),
        ("os:sep", "'os:sep' is str, not a function"),
        (3, "must be a function, or its name as `module:function`, not 3"),
    ],
)
def test_what_is_no_function_is_refused_before_the_run(named: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        MapRows(function=named)


def test_python_and_yaml_name_a_function_alike() -> None:
    assert MapRows(function=add_length).params.function == f"{__name__}:add_length"
    assert callable(MapRows(function=lambda row: row).params.function)


def test_a_bare_function_is_no_stage() -> None:
    with pytest.raises(SpecError, match=r"use a stage.*`MapRows\(function=...\)` for a row"):
        Pipeline("n", source=Files(paths=["*"]), stages=[add_length], sink=ParquetSink())  # type: ignore[list-item]
