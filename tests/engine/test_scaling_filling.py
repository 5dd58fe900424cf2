"""Giving workers to the slowest stage is as good as exhaustive search, and near the optimum."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scaling_player import Part
from scaling_simulator import find_best_whole, find_optimum, spread
from strandline.engine.autoscaler.bin_packing import FreeSpace, Units, Vacancy, sort_by_size
from strandline.engine.autoscaler.model import NodeResources
from strandline.engine.autoscaler.water_filling import (
    PoolDemand,
    fill,
    find_bound,
    find_pace,
    get_ahead,
    share_equally,
)

MANY = 10_000
small_parts = st.lists(
    st.builds(
        Part,
        st.just("s"),
        st.floats(0.01, 10),
        st.builds(NodeResources, st.sampled_from([1, 2, 3]), st.sampled_from([0.0, 0.0, 1.0])),
        fan=st.sampled_from([0.1, 1.0, 5.0]),
        ceiling=st.none() | st.integers(1, 5),
    ),
    min_size=1,
    max_size=4,
)


def make_room(*nodes: Units) -> FreeSpace:
    return FreeSpace(Vacancy(is_late=False, free=units) for units in nodes)


def make_crew(
    speed: float | None, needs: Units = (1,), floor: int = 1, ceiling: int = MANY
) -> PoolDemand:
    return PoolDemand(needs, speed, floor, ceiling)


def muster_parts(parts: list[Part], demand: list[float]) -> list[PoolDemand]:
    units = [part.needs.count_units() for part in parts]
    return [
        PoolDemand(
            (unit.get("cpu", 0), unit.get("gpu", 0)),
            1 / part.cost / share,
            part.floor,
            part.ceiling or MANY,
        )
        for part, unit, share in zip(parts, units, demand, strict=True)
    ]


def find_demand(parts: list[Part]) -> list[float]:
    return [math.prod(part.fan for part in parts[:number]) for number in range(len(parts))]


def fill_up(pools: list[PoolDemand], nodes: list[Units]) -> list[int]:
    room, order = make_room(*nodes), sort_by_size([pool.needs for pool in pools], nodes)
    counts = [pool.floor for pool in pools]
    for stage, pool in enumerate(pools):
        assume(room.assign(stage, pool.needs, pool.floor) == pool.floor)
    return fill(pools, counts, room, order).counts


@given(parts=small_parts, cpu=st.integers(4, 12), gpu=st.integers(0, 4))
def test_on_one_node_the_result_is_optimal(parts: list[Part], cpu: int, gpu: int) -> None:
    demand = find_demand(parts)
    pools = muster_parts(parts, demand)

    counts = fill_up(pools, [(cpu * 10_000, gpu * 10_000)])

    best, _ = find_best_whole(parts, demand, NodeResources(cpu=cpu, gpu=gpu))
    assert find_pace(pools, counts) == pytest.approx(best)


@given(
    speeds=st.lists(st.floats(0.1, 10), min_size=2, max_size=3),
    needs=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    nodes=st.lists(st.integers(2, 7), min_size=2, max_size=2),
)
def test_across_nodes_the_result_is_within_a_worker_of_the_optimum(
    speeds: list[float], needs: list[int], nodes: list[int]
) -> None:
    pools = [make_crew(speed, (need,)) for speed, need in zip(speeds, needs, strict=False)]

    counts = fill_up(pools, [(units,) for units in nodes])

    def fits(allocation: tuple[int, ...], units: int) -> bool:
        return (
            sum(count * pool.needs[0] for count, pool in zip(allocation, pools, strict=True))
            <= units
        )

    ranges = [range(max(nodes) // pool.needs[0] + 1) for pool in pools]
    allocations = [[one for one in product(*ranges) if fits(one, units)] for units in nodes]
    best = max(
        find_pace(pools, [sum(pair) - 1 for pair in zip(*one, strict=True)])
        for one in product(*allocations)
    )
    assert find_pace(pools, counts) >= best - 1e-9


@given(
    costs=st.lists(st.floats(0.05, 20), min_size=1, max_size=8),
    sizes=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), min_size=8, max_size=8),
    nodes=st.integers(1, 40),
)
def test_pools_of_ten_reach_nine_tenths_of_the_linear_programme(
    costs: list[float], sizes: list[float], nodes: int
) -> None:
    parts = [
        Part("s", cost, NodeResources(cpu=size)) for cost, size in zip(costs, sizes, strict=False)
    ]
    demand = find_demand(parts)
    cluster = list(spread(nodes, NodeResources(cpu=16)).values())
    optimum, workers = find_optimum(parts, demand, cluster, 0)
    assume(min(workers) >= 10)
    pools = muster_parts(parts, demand)

    counts = fill_up(pools, [(160_000, 0)] * nodes)

    lost = min(math.floor(worker + 1e-9) / worker for worker in workers)
    assert find_pace(pools, counts) >= optimum * lost * (1 - 1e-9)
    assert find_pace(pools, counts) >= 0.9 * optimum


@given(
    speeds=st.lists(st.floats(0.1, 10), min_size=1, max_size=6),
    units=st.integers(6, 60),
    more=st.integers(0, 20),
)
def test_taking_a_worker_from_another_pool_would_not_help(
    speeds: list[float], units: int, more: int
) -> None:
    pools = [make_crew(speed) for speed in speeds]

    counts = fill_up(pools, [(units,)])

    assert sum(counts) == units
    slowest = min(range(len(pools)), key=lambda one: pools[one].find_level(counts[one]))
    for stage, pool in enumerate(pools):  # a pool with one worker less would be the slowest
        if stage != slowest and counts[stage] > 1:
            assert pool.find_level(counts[stage] - 1) <= find_pace(pools, counts) * (1 + 1e-9)


def test_the_bound_ignores_borders_of_nodes() -> None:
    pools = [make_crew(1.0, (2,))]

    assert find_bound(pools, [0], make_room((3,), (3,))) == 3
    assert fill(pools, [0], make_room((3,), (3,)), [0]).counts == [2]


def test_a_pool_that_cannot_grow_limits_the_others() -> None:
    pools = [make_crew(1.0, ceiling=2), make_crew(1.0)]

    assert fill(pools, [1, 1], make_room((30,)), [0, 1]).counts == [2, 2]


def test_a_pool_that_grew_gets_a_little_ahead() -> None:
    pools = [make_crew(1.0, ceiling=8), make_crew(1.0), make_crew(1.0)]
    before = [8, 1, 20]

    filling = get_ahead(pools, before, fill(pools, before, make_room((50,)), [0, 1, 2]), 1.25)

    assert filling.counts == [8, 10, 20]


def test_a_stage_without_work_or_rate_does_not_set_the_pace() -> None:
    pools = [make_crew(math.inf), make_crew(None), make_crew(2.0)]

    assert find_pace(pools, [0, 0, 3]) == 6
    assert fill(pools, [0, 0, 3], make_room((5,)), [0, 1, 2]).counts == [0, 0, 8]


@given(
    floors=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    units=st.integers(0, 200),
)
def test_equal_shares_differ_by_one_at_most_above_the_floors(floors: list[int], units: int) -> None:
    counts = share_equally([make_crew(None, floor=floor) for floor in floors], [units])

    grown = [count - floor for count, floor in zip(counts, floors, strict=True)]
    assert max(grown) - min(grown) <= 1
    assert sum(counts) == max(units, sum(floors))


def test_an_equal_share_ends_at_the_ceiling_and_needs_something() -> None:
    pools = [make_crew(None, ceiling=2), make_crew(None, (0,)), make_crew(None, (2,))]

    assert share_equally(pools, [13]) == [2, 1, 5]
