"""Laws of `drop-duplicates`."""

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun

TEXTS = st.lists(
    st.sampled_from(["a", "a ", " a", "A", "b", "b c", "b\n c", "", None]), min_size=1, max_size=10
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@given(TEXTS)
def test_dropping_duplicates_is_idempotent(texts: list[str | None]) -> None:
    once = StageRun("drop-duplicates", within="task").column("text", texts)
    assert once == StageRun("drop-duplicates", within="task").column("text", once)


@given(TEXTS)
def test_the_first_of_equal_rows_is_kept_in_place(texts: list[str | None]) -> None:
    stage = StageRun("drop-duplicates", within="task", normalise="none")
    expected = [
        text
        for index, text in enumerate(texts)
        if (text or "") not in [t or "" for t in texts[:index]]
    ]
    assert expected == stage.column("text", texts)
    dropped = len(texts) - len(expected)
    assert ({"dropped: duplicate in its task": dropped} if dropped else {}) == stage.counters


@pytest.mark.parametrize(
    ("normalise", "kept"),
    [("none", ["a  b", "a b", "A B"]), ("whitespace", ["a  b", "A B"]), ("case", ["a  b"])],
)
def test_normalization_ignores_the_chosen_differences(
    run: type[StageRun], normalise: str, kept: list[str]
) -> None:
    stage = run("drop-duplicates", within="task", normalise=normalise, columns=["text"])
    assert kept == stage.column("text", ["a  b", "a b", "A B"])


def test_columns_are_compared_one_by_one(run: type[StageRun]) -> None:
    rows = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}, {"a": "x", "b": "yz"}]
    assert rows[:2] == run("drop-duplicates", within="task", columns=["a", "b"]).rows(rows)


def test_tasks_are_not_compared_with_each_other(run: type[StageRun]) -> None:
    stage = run("drop-duplicates", within="task")
    assert ["a"] == stage.column("text", ["a"]) == stage.column("text", ["a"])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 1]),
        pa.array([0.5, 0.25, 0.5]),
        pa.array([True, False, True]),
        pa.array([b"\xff", b"\xfe", b"\xff"]),
        pa.array([b"\xff", b"\xfe", b"\xff"], pa.binary(1)),
        pa.array([date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 1)]),
        pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
        pa.array([Decimal("1.50"), Decimal("1.51"), Decimal("1.50")]),
    ],
    ids=lambda values: str(values.type),
)
def test_values_of_any_simple_type_are_compared(run: type[StageRun], values: pa.Array) -> None:
    table = pa.table({"key": ["a", "b", "c"], "n": values})
    found = run("drop-duplicates", within="task", columns=["n"]).table(table)
    assert found is not None
    assert found["key"].to_pylist() == ["a", "b"]
    signed = run("digest-rows", columns=["n"]).table(table)
    assert signed is not None
    shared = Counter(signed["bucket"].to_pylist())
    assert sorted(shared.values())[-2:] == [1, 2]


def test_lists_are_not_compared(run: type[StageRun]) -> None:
    with pytest.raises(TypeError, match="which can't be written as text"):
        run("drop-duplicates", within="task", columns=["n"]).rows([{"n": [1]}])
