"""The planner drains some workers to make space for others."""

from __future__ import annotations

from strandline.engine.autoscaler.bin_packing import Units
from strandline.engine.autoscaler.rebalancing import Exchange, find_exchange
from strandline.engine.autoscaler.water_filling import PoolDemand

MANY = 1000


def exchange(
    pools: list[PoolDemand],
    counts: list[int],
    target: list[int],
    allocation: list[dict[int, int]],
    free: list[Units] | None = None,
    barred: list[bool] | None = None,
) -> Exchange:
    return find_exchange(
        pools,
        counts,
        target,
        barred or [False] * len(pools),
        (free or [(0,) * len(pools[0].needs)] * len(allocation), allocation),
        list(range(len(pools))),
    )


def pool(needs: Units, speed: float | None = 1.0) -> PoolDemand:
    return PoolDemand(needs, speed, 1, MANY)


def test_only_necessary_workers_are_drained() -> None:
    found = exchange([pool((2,)), pool((1,))], [1, 9], [3, 1], [{0: 1, 1: 9}])

    assert found.drained == {(1, 0): 4}
    assert found.counts == [3, 5]


def test_free_resources_are_used_first() -> None:
    found = exchange([pool((2,)), pool((1,))], [1, 3], [2, 1], [{0: 1, 1: 3}], free=[(1,)])

    assert found.drained == {(1, 0): 1}


def test_the_node_that_lacks_least_is_chosen_first() -> None:
    allocation = [{1: 4}, {1: 2}]

    found = exchange([pool((4,)), pool((1,))], [0, 6], [1, 0], allocation, free=[(0,), (2,)])

    assert found.drained == {(1, 1): 2}


def test_room_on_two_nodes_is_not_room_on_one() -> None:
    found = exchange([pool((4,)), pool((1,))], [0, 6], [1, 0], [{1: 3}, {1: 3}])

    assert found.drained == {}
    assert found.counts == [0, 6]


def test_the_pool_with_most_to_spare_is_drained_first() -> None:
    pools = [pool((1,)), pool((1,), speed=5.0), pool((1,), speed=3.0)]

    found = exchange(pools, [0, 4, 4], [2, 1, 1], [{1: 4, 2: 4}])

    assert found.drained == {(1, 0): 2}


def test_an_unnecessary_drain_is_cancelled() -> None:
    pools = [pool((2,)), pool((1,), speed=9.0), pool((2,), speed=1.0)]

    found = exchange(pools, [0, 2, 2], [1, 1, 1], [{1: 2, 2: 2}])

    assert found.drained == {(2, 0): 1}


def test_only_workers_that_hold_missing_resources_are_drained() -> None:
    pools = [pool((1, 1)), pool((1, 0), speed=9.0), pool((1, 1), speed=2.0)]

    found = exchange(pools, [0, 5, 2], [1, 1, 1], [{1: 5, 2: 2}], free=[(5, 0)])

    assert found.drained == {(2, 0): 1}


def test_barred_pools_are_not_drained() -> None:
    found = exchange([pool((1,)), pool((1,))], [0, 5], [3, 1], [{1: 5}], barred=[False, True])

    assert found.drained == {}


def test_no_pool_is_drained_below_its_target() -> None:
    found = exchange([pool((1,)), pool((1,))], [0, 5], [9, 3], [{1: 3}, {1: 2}])

    assert sum(found.drained.values()) == 2
    assert found.counts == [2, 3]


def test_the_caller_s_numbers_are_not_changed() -> None:
    allocation, counts = [{1: 5}], [0, 5]

    exchange([pool((1,)), pool((1,))], counts, [3, 1], allocation)

    assert allocation == [{1: 5}]
    assert counts == [0, 5]
