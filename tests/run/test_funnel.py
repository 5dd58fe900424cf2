"""The work of attempts: rows by stage, cost, and the loss caused by a kill."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.receipt import StageCounts
from strandline.run.insight.funnel import Cost, WorstKill, estimate_cost, estimate_worst, view_rows


def test_reasons_are_sorted_by_count_and_lose_their_prefix() -> None:
    counts = StageCounts(counters={"dropped: b": 2, "dropped: a": 2, "dropped: c": 9, "seen": 5})
    (stage,) = view_rows({"filter": counts})
    assert stage.reasons == (("c", 9), ("a", 2), ("b", 2))


@given(seconds=st.floats(0, 1e6), begun=st.integers(0, 1000), done=st.integers(0, 1000))
def test_law_at_most_the_used_time_is_lost(seconds: float, begun: int, done: int) -> None:
    counts = {"read": StageCounts(tasks_in=begun, seconds=seconds), "write": StageCounts(seconds=1)}
    cost = estimate_cost(counts, {"read": 2.0}, done, is_cut=True)
    assert cost.used == 2 * seconds + 1
    assert 0 <= cost.lost <= cost.used
    assert (cost.lost > 0) == (begun > done)
    assert estimate_cost(counts, {"read": 2.0}, done, is_cut=False).lost == 0


def test_an_interruption_costs_the_share_that_is_repeated() -> None:
    counts = {"read": StageCounts(tasks_in=10, seconds=30.0), "write": StageCounts(seconds=10.0)}
    assert estimate_cost(counts, {"read": 1.0, "write": 0.5}, 8, is_cut=True) == Cost(35.0, 7.0)
    assert Cost(1, 2).add(Cost(3, 4)) == Cost(4, 6)
    assert estimate_cost({}, {}, 0, is_cut=True) == Cost()


SOURCES = st.lists(
    st.tuples(st.text(max_size=3), st.floats(0, 100), st.integers(0, 10**9)), max_size=6
)


@given(SOURCES, st.floats(0.1, 1e6), st.integers(1, 10))
def test_law_the_worst_kill_costs_at_least_as_much_as_a_typical_one(
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


def test_the_cost_of_a_kill_is_omitted_without_a_measurement() -> None:
    assert estimate_worst([("a", 0.0, 1)], 0.0, 1) is None
    assert estimate_worst([("a", 0.0, 1)], 1.0, 0) is None
    large = estimate_worst([("a", 0.0, 10), ("b", 0.0, 90)], 20.0, 2)
    assert large == WorstKill("b", 18.0, 10.0)
