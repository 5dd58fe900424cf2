"""Draining some workers so that others find room."""

from __future__ import annotations

from strandline.engine.autoscaler.bin_packing import Units
from strandline.engine.autoscaler.rebalancing import Exchange, find_exchange
from strandline.engine.autoscaler.water_filling import Crew

MANY = 1000


def exchange(
    crews: list[Crew],
    counts: list[int],
    target: list[int],
    staff: list[dict[int, int]],
    free: list[Units] | None = None,
    barred: list[bool] | None = None,
) -> Exchange:
    return find_exchange(
        crews,
        counts,
        target,
        barred or [False] * len(crews),
        (free or [(0,) * len(crews[0].needs)] * len(staff), staff),
        list(range(len(crews))),
    )


def crew(needs: Units, speed: float | None = 1.0) -> Crew:
    return Crew(needs, speed, 1, MANY)


def test_only_as_many_are_drained_as_make_room() -> None:
    found = exchange([crew((2,)), crew((1,))], [1, 9], [3, 1], [{0: 1, 1: 9}])

    assert found.drained == {(1, 0): 4}
    assert found.counts == [3, 5]


def test_what_is_free_already_is_used() -> None:
    found = exchange([crew((2,)), crew((1,))], [1, 3], [2, 1], [{0: 1, 1: 3}], free=[(1,)])

    assert found.drained == {(1, 0): 1}


def test_a_node_that_lacks_least_is_taken_first() -> None:
    staff = [{1: 4}, {1: 2}]

    found = exchange([crew((4,)), crew((1,))], [0, 6], [1, 0], staff, free=[(0,), (2,)])

    assert found.drained == {(1, 1): 2}


def test_room_on_two_nodes_is_not_room_on_one() -> None:
    found = exchange([crew((4,)), crew((1,))], [0, 6], [1, 0], [{1: 3}, {1: 3}])

    assert found.drained == {}
    assert found.counts == [0, 6]


def test_whoever_has_most_to_spare_goes_first() -> None:
    crews = [crew((1,)), crew((1,), speed=5.0), crew((1,), speed=3.0)]

    found = exchange(crews, [0, 4, 4], [2, 1, 1], [{1: 4, 2: 4}])

    assert found.drained == {(1, 0): 2}


def test_one_that_turns_out_to_be_superfluous_stays() -> None:
    crews = [crew((2,)), crew((1,), speed=9.0), crew((2,), speed=1.0)]

    found = exchange(crews, [0, 2, 2], [1, 1, 1], [{1: 2, 2: 2}])

    assert found.drained == {(2, 0): 1}


def test_only_those_who_hold_what_is_missing_are_drained() -> None:
    crews = [crew((1, 1)), crew((1, 0), speed=9.0), crew((1, 1), speed=2.0)]

    found = exchange(crews, [0, 5, 2], [1, 1, 1], [{1: 5, 2: 2}], free=[(5, 0)])

    assert found.drained == {(2, 0): 1}


def test_the_barred_are_left_alone() -> None:
    found = exchange([crew((1,)), crew((1,))], [0, 5], [3, 1], [{1: 5}], barred=[False, True])

    assert found.drained == {}


def test_none_goes_below_its_target() -> None:
    found = exchange([crew((1,)), crew((1,))], [0, 5], [9, 3], [{1: 3}, {1: 2}])

    assert sum(found.drained.values()) == 2
    assert found.counts == [2, 3]


def test_the_caller_s_numbers_are_not_changed() -> None:
    staff, counts = [{1: 5}], [0, 5]

    exchange([crew((1,)), crew((1,))], counts, [3, 1], staff)

    assert staff == [{1: 5}]
    assert counts == [0, 5]
