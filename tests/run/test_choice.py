"""The choice of cuts that save the most seconds per byte, within limits on time and space."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.run.revise.cuts.choice import SHARE, WRITING, CutMeasure, CutVerdict, choose_cuts

SLOW = CutMeasure(100.0, 10e6)
QUICK = CutMeasure(0.001, 10e6)


def choose(
    measures: dict[str, CutMeasure], at_most: int | None = None, *asked: str
) -> dict[str, CutVerdict]:
    judged = choose_cuts(measures, list(measures), asked, 10, at_most)
    return {each.stage: each.verdict for each in judged}


def test_cuts_after_expensive_work_are_kept_and_cheap_ones_are_not() -> None:
    found = choose({"read": QUICK, "extract": SLOW, "filter": QUICK})
    assert CutVerdict.SAVES_LITTLE is found["read"]
    # The lower cut saves the work of both stages. The upper cut helps if a stage between them
    # changes.
    assert CutVerdict.KEPT is found["filter"]
    assert CutVerdict.KEPT is found["extract"]


def test_a_cut_saves_the_work_between_itself_and_the_next_kept_cut() -> None:
    judged = choose_cuts({"a": SLOW, "b": SLOW}, ["a", "b"], ["a"], 1, None)
    assert [("a", 100.0), ("b", 100.0)] == [(each.stage, each.seconds) for each in judged]


def test_the_best_cuts_are_kept_first_until_the_space_is_full() -> None:
    measures = {"a": SLOW, "b": SLOW._replace(size=1e6)}
    assert choose(measures, 10 * 10**6) == {"b": CutVerdict.KEPT, "a": CutVerdict.TOO_LARGE}


def test_impossible_and_requested_cuts_get_their_own_verdicts() -> None:
    found = choose({"a": SLOW._replace(size=None), "b": QUICK}, None, "b")
    assert found == {"a": CutVerdict.IMPOSSIBLE, "b": CutVerdict.ASKED}


MEASURES = st.lists(
    st.builds(CutMeasure, st.floats(0, 100), st.none() | st.floats(0, 1e9)), max_size=6
)


@given(MEASURES, st.none() | st.integers(0, 10**10))
def test_law_chosen_cuts_respect_both_bounds(
    measures: list[CutMeasure], at_most: int | None
) -> None:
    named = {f"s{at}": each for at, each in enumerate(measures)}
    judged = choose_cuts(named, list(named), (), 10, at_most)
    assert sorted(named) == sorted(each.stage for each in judged)
    size = sum(each.size for each in judged if each.is_kept)
    assert size / WRITING * SHARE <= sum(each.seconds for each in measures)
    assert at_most is None or 10 * size <= at_most * (1 + 1e-9)
