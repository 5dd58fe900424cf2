"""Groups of a fan-out have the same members in any order of arrival."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.flow.grouping import Grouping
from strandline.plan.task import Origin

PARENT = b"p" * 16


@given(
    of=st.integers(1, 40),
    size=st.integers(1, 10),
    gone=st.sets(st.integers(0, 39)),
    seed=st.integers(),
)
def test_members_do_not_depend_on_the_order_of_arrival(
    of: int, size: int, gone: set[int], seed: int
) -> None:
    grouping: Grouping[int] = Grouping(size)
    slots = list(range(of))
    random.Random(seed).shuffle(slots)

    released = []
    for slot in slots:
        origin = Origin(PARENT, slot, of)
        group = (
            grouping.vanish(origin, PARENT)
            if slot in gone
            else grouping.arrive(origin, slot, PARENT)
        )
        released += [group] if group else []

    ranges = [range(begin, min(begin + size, of)) for begin in range(0, of, size)]
    expected = [[slot for slot in members if slot not in gone] for members in ranges]
    assert sorted(released) == [members for members in expected if members]
    assert len(grouping) == 0


def test_a_group_waits_for_its_last_slot() -> None:
    grouping: Grouping[str] = Grouping(2)

    assert grouping.arrive(Origin(PARENT, 1, 3), "b", PARENT) is None
    assert grouping.arrive(Origin(PARENT, 2, 3), "c", PARENT) == ["c"]
    assert grouping.arrive(Origin(PARENT, 0, 3), "a", PARENT) == ["a", "b"]


def test_a_task_without_a_fan_out_is_its_own_group() -> None:
    assert Grouping[str](16).arrive(None, "only", PARENT) == ["only"]


def test_fan_outs_do_not_mix() -> None:
    grouping: Grouping[str] = Grouping(2)

    grouping.arrive(Origin(b"one", 0, 2), "a", b"one")
    grouping.arrive(Origin(b"two", 0, 2), "x", b"two")

    assert grouping.arrive(Origin(b"two", 1, 2), "y", b"two") == ["x", "y"]


def test_dropped_groups_of_an_owner_can_arrive_again() -> None:
    grouping: Grouping[str] = Grouping(2)
    grouping.arrive(Origin(b"one", 0, 4), "a", b"mine")
    grouping.vanish(Origin(b"one", 2, 4), b"mine")
    grouping.arrive(Origin(b"two", 0, 2), "x", b"another's")

    grouping.drop(b"mine")
    grouping.drop(b"nobody's")

    assert len(grouping) == 1
    assert grouping.arrive(Origin(b"one", 1, 4), "b", b"mine") is None
    assert grouping.arrive(Origin(b"two", 1, 2), "y", b"another's") == ["x", "y"]
    assert grouping.arrive(Origin(b"one", 0, 4), "c", b"mine") == ["c", "b"]
    assert len(grouping) == 0
