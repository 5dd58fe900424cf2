"""Laws of `drop-duplicates`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun

TEXTS = st.lists(
    st.sampled_from(["a", "a ", " a", "A", "b", "b c", "b\n c", "", None]), min_size=1, max_size=10
)


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
