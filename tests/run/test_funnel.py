"""The funnel of a run: nothing that went through a stage is forgotten, whatever ended attempts."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.receipt import StageCounts
from strandline.run.history.funnel import Cost, WorstKill, add_up, estimate_cost, estimate_worst

STAGES = ("read", "filter", "write")


@st.composite
def draw_counts(draw: st.DrawFn) -> StageCounts:
    number = st.integers(0, 1000)
    reasons = st.sampled_from(["dropped: too long", "dropped: empty", "replaced: odd"])
    counters = draw(st.dictionaries(reasons, number))
    names = ("tasks_in", "tasks_out", "filtered", "failed", "rows_in", "rows_out")
    return StageCounts(**{name: draw(number) for name in names}, counters=counters)


@given(attempts=st.lists(st.dictionaries(st.sampled_from(STAGES), draw_counts()), max_size=4))
def test_law_a_funnel_is_the_sum_of_its_attempts(attempts: list[dict[str, StageCounts]]) -> None:
    kept = copy.deepcopy(attempts)
    funnel = {stage.name: stage for stage in add_up(attempts)}
    for name in STAGES:
        parts = [each[name] for each in attempts if name in each]
        assert (name in funnel) == bool(parts)
        for column in ("tasks_in", "rows_in", "rows_out", "failed"):
            total = getattr(funnel[name].counts, column) if parts else 0
            assert total == sum(getattr(part, column) for part in parts)
        dropped = sum(number for _, number in funnel[name].dropped) if parts else 0
        assert dropped == sum(
            number
            for part in parts
            for counter, number in part.counters.items()
            if counter.startswith("dropped: ")
        )
    assert attempts == kept  # what was added up stays as it was


def test_reasons_come_with_the_most_first_and_without_their_mark() -> None:
    counts = StageCounts(counters={"dropped: b": 2, "dropped: a": 2, "dropped: c": 9, "seen": 5})
    (stage,) = add_up([{"filter": counts}])
    assert stage.dropped == (("c", 9), ("a", 2), ("b", 2))


def test_stages_come_in_their_order_and_new_ones_last() -> None:
    attempts = [{"a": StageCounts(), "b": StageCounts()}, {"b": StageCounts(), "c": StageCounts()}]
    assert [stage.name for stage in add_up(attempts)] == ["a", "b", "c"]


@given(seconds=st.floats(0, 1e6), begun=st.integers(0, 1000), done=st.integers(0, 1000))
def test_law_no_more_is_lost_than_was_used(seconds: float, begun: int, done: int) -> None:
    counts = {"read": StageCounts(tasks_in=begun, seconds=seconds), "write": StageCounts(seconds=1)}
    cost = estimate_cost(counts, {"read": 2.0}, done, is_cut=True)
    assert cost.used == 2 * seconds + 1
    assert 0 <= cost.lost <= cost.used
    assert (cost.lost > 0) == (begun > done)
    assert estimate_cost(counts, {"read": 2.0}, done, is_cut=False).lost == 0


def test_what_an_interruption_costs_is_the_share_that_is_done_again() -> None:
    counts = {"read": StageCounts(tasks_in=10, seconds=30.0), "write": StageCounts(seconds=10.0)}
    assert estimate_cost(counts, {"read": 1.0, "write": 0.5}, 8, is_cut=True) == Cost(35.0, 7.0)
    assert Cost(1, 2).add(Cost(3, 4)) == Cost(4, 6)
    assert estimate_cost({}, {}, 0, is_cut=True) == Cost()


def filter_counts(rows: int, dropped: int) -> dict[str, StageCounts]:
    """An attempt in which a filter looked at a task of so many rows."""
    counters = {"dropped: too short": dropped}
    return {"f": StageCounts(1, 1, rows_in=rows, rows_out=rows - dropped, counters=counters)}


FAILED_TASK = {"f": StageCounts(1, failed=1, rows_in=100)}


@pytest.mark.parametrize("tries", [0, 1, 3])
def test_law_tries_that_failed_change_no_share(tries: int) -> None:
    """However often a source failed, what its rows' stage keeps of them is the same."""
    (filtering,) = add_up([*[FAILED_TASK] * tries, filter_counts(100, 25)])
    assert filtering.share_kept == 0.75
    passing = {"f": StageCounts(1, 1, rows_in=100, rows_out=100)}
    (mapping,) = add_up([*[FAILED_TASK] * tries, passing])
    assert mapping.share_kept == 1.0


def test_without_an_answer_there_is_no_share() -> None:
    for attempts in ([{"f": StageCounts()}], [FAILED_TASK, FAILED_TASK]):
        (stage,) = add_up(attempts)
        assert stage.share_kept is None


def test_a_stage_may_make_many_rows_of_one() -> None:
    (stage,) = add_up([{"f": StageCounts(1, 1, rows_in=10, rows_out=30)}])
    assert stage.share_kept == 3.0


SOURCES = st.lists(
    st.tuples(st.text(max_size=3), st.floats(0, 100), st.integers(0, 10**9)), max_size=6
)


@given(SOURCES, st.floats(0.1, 1e6), st.integers(1, 10))
def test_law_the_worst_kill_is_of_one_source_and_no_less_than_a_common_one(
    sources: list[tuple[str, float, int]], seconds: float, more: int
) -> None:
    worst = estimate_worst(sources, seconds, len(sources) + more)
    if not sources:
        assert worst is None
        return
    assert worst is not None
    assert worst.key in {key for key, *_ in sources}
    assert worst.mean == pytest.approx(seconds / (len(sources) + more))
    measured = max(known for _, known, _ in sources)
    if measured > 0:
        assert worst.seconds == measured
    else:
        assert worst.seconds >= worst.mean * 0.999
        assert worst.seconds <= worst.mean * len(sources) * 1.001


def test_without_a_measurement_nothing_is_told_of_a_kill() -> None:
    assert estimate_worst([("a", 0.0, 1)], 0.0, 1) is None
    assert estimate_worst([("a", 0.0, 1)], 1.0, 0) is None
    large = estimate_worst([("a", 0.0, 10), ("b", 0.0, 90)], 20.0, 2)
    assert large == WorstKill("b", 18.0, 10.0)
