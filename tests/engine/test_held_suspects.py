"""Suspects wait until no other work is left. Each round retries half as many together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot
from strandline.engine.flow.suspects import SuspectBatch, Suspects


def hold(number: int, exposed: int) -> SuspectBatch:
    name = number.to_bytes(16, "big")
    return SuspectBatch(0, [Slot(name, str(number), name, None, None, 0)], exposed)


def release_all(suspects: Suspects) -> list[list[SuspectBatch]]:
    rounds = []
    while group := suspects.release(()):
        rounds.append(group)
    return rounds


@pytest.mark.parametrize(
    ("exposed_groups", "sizes"),
    [
        ([], []),
        ([1], [1]),
        ([1, 1, 1], [1, 1, 1]),
        ([2, 2], [1, 1]),
        ([3, 3, 3], [1, 1, 1]),
        ([4, 4, 4, 4], [2, 2]),
        ([8] * 7, [4, 3]),
        ([1, 8, 8, 8, 8, 8], [4, 1, 1]),
    ],
)
def test_a_round_retries_half_of_a_group(exposed_groups: list[int], sizes: list[int]) -> None:
    suspects = Suspects()
    for number, exposed in enumerate(exposed_groups):
        suspects.hold(hold(number, exposed))
    assert sizes == [len(group) for group in release_all(suspects)]


def test_suspects_that_ran_alone_come_last() -> None:
    suspects = Suspects()
    for number, exposed in enumerate([1, 2, 4, 2]):
        suspects.hold(hold(number, exposed))
    exposed_groups = [held.exposed for group in release_all(suspects) for held in group]
    assert [4, 2, 2, 1] == exposed_groups


@given(exposed_groups=st.lists(st.integers(1, 40), max_size=40))
def test_every_suspect_is_released_once_with_at_most_half_of_its_group(
    exposed_groups: list[int],
) -> None:
    suspects = Suspects()
    for number, exposed in enumerate(exposed_groups):
        suspects.hold(hold(number, exposed))
    rounds = release_all(suspects)
    released = sorted(held.batch[0].key for group in rounds for held in group)
    assert sorted(str(number) for number in range(len(exposed_groups))) == released
    assert len(suspects) == 0
    for group in rounds:
        assert all(len(group) <= max(1, held.exposed // 2) for held in group)


@given(size=st.integers(1, 500), culprit=st.data())
def test_the_number_of_deaths_until_the_culprit_is_alone_is_logarithmic(
    size: int, culprit: st.DataObject
) -> None:
    """Each death at least halves the group of suspects."""
    guilty = culprit.draw(st.integers(0, size - 1))
    suspects, deaths, exposed = Suspects(), 0, size
    for number in range(size):
        suspects.hold(hold(number, size))
    while exposed > 1:
        group = suspects.release(())
        names = [int(held.batch[0].key) for held in group]
        if guilty in names:
            deaths, exposed = deaths + 1, len(group)
            for number in names:
                suspects.hold(hold(number, exposed))
    assert deaths <= size.bit_length()


def test_failed_sources_are_not_tried_again() -> None:
    suspects = Suspects()
    first, second = hold(1, 2), hold(2, 2)
    suspects.hold(first)
    suspects.hold(second)
    assert suspects.release({first.batch[0].source}) == [second]
    assert len(suspects) == 0


def test_only_held_work_of_the_given_source_is_dropped() -> None:
    suspects = Suspects()
    others = [hold(1, 2), hold(3, 2)]
    for held in (others[0], hold(2, 2), others[1], hold(2, 1)):
        suspects.hold(held)
    suspects.drop({hold(2, 0).batch[0].source})
    assert len(suspects) == 2
    assert [group[0] for group in release_all(suspects)] == others


def test_clear_drops_all_suspects() -> None:
    suspects = Suspects()
    suspects.hold(hold(1, 1))
    suspects.clear()
    assert suspects.release(()) == []
