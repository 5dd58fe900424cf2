"""Consecutive losses of workers with a common cause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import WHOLE
from strandline.engine.core.loss_streaks import ChainStreak

sources = st.binary(min_size=1, max_size=1)
exposed_groups = st.lists(st.frozensets(sources, max_size=4), max_size=8)


def note_all(losses: list[frozenset[bytes]]) -> ChainStreak:
    streak = ChainStreak()
    for loss in losses:
        streak.note(WHOLE, loss)
    return streak


@given(killers=st.lists(sources, max_size=20))
def test_law_repeated_deaths_of_one_source_are_one_cause(killers: list[bytes]) -> None:
    assert note_all([frozenset([killer]) for killer in killers]).causes == len(set(killers))


@given(neighbours=st.frozensets(sources, min_size=2, max_size=4), times=st.integers(1, 5))
def test_law_a_group_and_its_culprit_are_one_cause(
    neighbours: frozenset[bytes], times: int
) -> None:
    culprit = min(neighbours)
    assert note_all([neighbours, *[frozenset([culprit])] * times]).causes == 1


@given(losses=exposed_groups)
def test_law_causes_are_between_one_and_the_number_of_losses(
    losses: list[frozenset[bytes]],
) -> None:
    streak = note_all(losses)
    assert min(len(losses), 1) <= streak.causes <= len(losses)


@given(
    losses=exposed_groups,
    loss=st.frozensets(sources, min_size=2, max_size=4) | st.just(frozenset()),
)
def test_law_unknown_culprits_are_separate_causes(
    losses: list[frozenset[bytes]], loss: frozenset[bytes]
) -> None:
    assert note_all([*losses, loss]).causes == note_all(losses).causes + 1


def test_the_second_culprit_of_a_group_is_a_separate_cause() -> None:
    streak = note_all([frozenset([b"a", b"b"]), frozenset([b"a"])])
    assert streak.causes == 1
    streak.note(WHOLE, [b"b"])
    assert streak.causes == 2


def test_a_success_ends_the_streak() -> None:
    streak = note_all([frozenset([b"a", b"b"]), frozenset([b"c"]), frozenset()])
    streak.end(WHOLE)
    assert streak.causes == 0
    streak.note(WHOLE, [b"a"])
    assert streak.causes == 1


@given(times=st.lists(st.integers(1, 5), max_size=20))
def test_law_work_lost_again_is_a_cause_and_work_lost_with_it_is_not(
    times: list[int],
) -> None:
    streak = ChainStreak()
    for each in times:
        streak.note_again(WHOLE, each)
    assert streak.causes == len({each for each in times if each > 1})
    streak.end(WHOLE)
    streak.note_again(WHOLE, 2)
    assert streak.causes == 1
