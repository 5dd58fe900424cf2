"""Filtering rows by an expression: valid expressions, their results, and errors."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.stages.registry import find_stage
from strandline_api.documents.problems import SpecError
from strandline_packs.tables.rows.row_expressions import ExpressionError, RowExpression

JANUARY = datetime(2026, 1, 31, tzinfo=UTC)
ROWS = pa.table(
    {
        "key": ["a", "b", "c", "d"],
        "score": [0.5, 0.1, None, math.nan],
        "count": pa.array([1, 2, 3, None], pa.int64()),
        "language": pa.array(["en", "de", None, "en"]).dictionary_encode(),
        "text": ["The sea", "Das Meer", "", None],
        "image": [{"width": 10, "kind": {"name": "png"}}, {"width": 20, "kind": None}, None, None],
        "tags": [["x", "y"], [], None, ["x"]],
        "when": pa.array([JANUARY, JANUARY + timedelta(1), None, None], pa.timestamp("us")),
        "good": [True, False, None, True],
    }
)


def keep(where: str, rows: pa.Table = ROWS) -> str:
    """Return the keys of the remaining rows."""
    return "".join(row["key"] for row in StageRun("keep-rows", where=where).rows(rows))


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("score >= 0.5 and language == 'en'", "a"),
        ("score >= 0.5 or language == 'en'", "ad"),
        ("not language == 'en'", "b"),
        ("language != 'en'", "b"),
        ("language in ('en', 'fr')", "ad"),
        ("language not in ['en', 'fr']", "b"),
        ("language is None", "c"),
        ("language is not None and good", "ad"),
        ("0.2 < score <= 1", "a"),
        ("count / 2 == 0.5", "a"),
        ("count * 2 - 1 > 1 + 1", "bc"),
        ("-count < -2", "c"),
        ("len(text) > 7", "b"),
        ("len(tags) > 1", "a"),
        ("contains(lower(text), 'sea')", "a"),
        ("startswith(text, 'Das') or endswith(text, 'sea')", "ab"),
        ("image.width > 10", "b"),
        ("image.kind.name == 'png'", "a"),
        ("when >= time('2026-02-01')", "b"),
        ("isnan(score)", "d"),
        ("good", "ad"),
        ("True", "abcd"),
        ("  score >= 0.5\n", "a"),
    ],
)
def test_rows_stay_if_the_condition_is_true(where: str, keys: str) -> None:
    assert keep(where) == keys


def test_rows_with_an_unknown_result_are_dropped_and_counted_apart() -> None:
    stage = StageRun("keep-rows", where="score >= 0.5", reason="low score")
    assert [row["key"] for row in stage.rows(ROWS)] == ["a"]
    assert stage.counters == {"dropped: low score": 2, "dropped: low score is null": 1}
    stage = StageRun("keep-rows", where="score >= 0.5", reasonColumn="why")
    assert [row["why"] for row in stage.rows(ROWS)] == [
        None, "expression", "expression is null", "expression",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("score >", "invalid syntax; write `==`"),
        ("score = 0.5", "write `==`"),
        ("score > 1 AND count > 1", "write `==`, `and`"),
        ("__import__('os').system('true')", "the functions are abs, contains"),
        ("open('/etc/passwd')", "the functions are"),
        ("text.upper()", "the functions are"),
        ("(lambda: 1)()", "the functions are"),
        ("[x for x in tags]", "is not supported; use columns, values"),
        ("tags[0] == 'x'", "is not supported; use columns, values"),
        ("f'{text}' == 'a'", "is not supported; use columns, values"),
        ("(a := 1) == 1", "is not supported; use columns, values"),
        ("score if good else count", "is not supported; use columns, values"),
        ("count ** 9 > 1", "the operators for numbers are +, -, * and /"),
        ("count % 2 == 0", "the operators for numbers are +, -, * and /"),
        ("~good", "write `not` or `-`"),
        ("language == None", "write `is None`"),
        ("score is 1", "`is` only supports None"),
        ("'x' in text", "contains(column, 'text')"),
        ("count > 99999999999999999999", "must be a number of at most 64 bits"),
        ("text == b'a'", "number of at most 64 bits, a string"),
        ("len(text, 1) > 1", "`len` takes one value"),
        ("contains(text, language)", "`contains` takes a column and a text"),
        ("time('soon') < when", "'soon' is not a time such as"),
        (
            "(" * 4000 + "1" + ")" * 4000,
            "too many nested parentheses|the expression can't be parsed",
        ),
        ("-" * 1500 + "1 > 2", "must be nested at most 100 deep"),
        ("not " * 2000 + "True", "must be nested at most 100 deep"),
        ("a" * 10_001, "at most 10,000 characters"),
    ],
)
def test_invalid_conditions_are_refused_before_a_run(where: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        find_stage("keep-rows")(where=where)
    assert any(part in str(caught.value) for part in message.split("|"))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("score", "`score` is double, not a condition"),
        ("score and good", "`score` is double, not a condition"),
        ("text >= 0.5", "`text >= 0.5` can't be computed from string and double"),
        ("count / 0 == 1 or count * 9223372036854775807 > 1", "can't be computed from int64"),
        ("missing == 1", "no column 'missing'"),
        ("image.height > 1", "no field 'height'"),
    ],
)
def test_conditions_that_do_not_fit_the_columns_are_reported(where: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        keep(where)
    assert message in str(caught.value)


def test_columns_of_a_condition_are_known_before_a_run() -> None:
    expression = RowExpression("len(text) > 1 and image.width > 2 and text != 'a'")
    assert expression.list_columns() == ("text", "image")


numbers = st.none() | st.integers(-5, 5)


@given(
    rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    operator=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    joined=st.sampled_from(["and", "or"]),
)
def test_law_results_equal_pythons_without_nulls(
    rows: list[tuple[int | None, int | None]], operator: str, joined: str
) -> None:
    where = f"a {operator} b {joined} not a + 1 > b * 2"
    table = pa.table({"a": pa.array([a for a, _ in rows], pa.int64()),
                      "b": pa.array([b for _, b in rows], pa.int64())})  # fmt: skip
    found = RowExpression(where).compute(table).to_pylist()
    for (a, b), holds in zip(rows, found, strict=True):
        if a is not None and b is not None:
            values: dict[str, Any] = {"a": a, "b": b}
            assert holds is eval(where, {}, values)  # noqa: S307 - the test's own text
        else:
            assert holds is None


@given(text=st.text(max_size=30))
def test_law_a_text_is_a_condition_or_refused_with_a_clear_error(text: str) -> None:
    with suppress(ExpressionError, MissingColumnError):
        assert len(RowExpression(text).compute(ROWS)) == ROWS.num_rows


def test_a_type_error_is_no_arrow_traceback() -> None:
    with pytest.raises(ExpressionError):
        RowExpression("lower(count) == 'a'").compute(ROWS)


@pytest.mark.parametrize(
    ("where", "character", "begins"),
    [
        ("  score == 'é' and count is 3", 29, "`is` only supports None"),
        ("(score == 1 and\r\n f(count))", 19, "unsupported call"),
        ("(score == 1 and\r f(count))", 18, "unsupported call"),
        ("score >=", 9, "invalid syntax"),
        (" score = 3", 8, "invalid syntax"),
        ("len(text", 4, "'(' was never closed"),
    ],
)
def test_the_place_of_a_mistake_is_named(where: str, character: int, begins: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        RowExpression(where)
    assert f"{where!r}, character {character}: {begins}" in str(caught.value)


def test_an_operation_without_a_suitable_type_is_named_with_its_place() -> None:
    with pytest.raises(ExpressionError, match="character 11: `text \\* 2` can't be computed"):
        keep("good and (text * 2 == 3)")


@given(st.text("a\r\n ()='é", max_size=20))
def test_law_an_error_is_reported_alike_at_any_place(where: str) -> None:
    with suppress(ExpressionError):
        RowExpression(where)
