"""The planner packs workers on nodes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.autoscaler.bin_packing import FreeSpace, Units, Vacancy, pack, sort_by_size


def make_room(*nodes: Units) -> FreeSpace:
    return FreeSpace(Vacancy(is_late=False, free=units) for units in nodes)


def count_by_node(room: FreeSpace) -> Counter[tuple[int, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for stage, nodes, each in room.blocks:
        counts.update({(stage, node): each for node in nodes})
    return counts


@given(
    nodes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=6),
    wants=st.lists(
        st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 2)), st.integers(0, 9)), max_size=5
    ),
)
def test_placed_and_free_resources_add_up_to_the_total(
    nodes: list[Units], wants: list[tuple[Units, int]]
) -> None:
    room = make_room(*nodes)

    placed = [room.assign(stage, needs, count) for stage, (needs, count) in enumerate(wants)]

    used: Counter[tuple[int, int]] = Counter()
    for (stage, node), count in count_by_node(room).items():
        for kind, need in enumerate(wants[stage][0]):
            used[node, kind] += need * count
    for node, free in enumerate(room.list_free()):
        assert all(have >= 0 for have in free)
        assert tuple(have + used[node, kind] for kind, have in enumerate(free)) == nodes[node]
    assert all(0 <= count <= want for count, (_, want) in zip(placed, wants, strict=True))


@given(
    sizes=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=20),
    nodes=st.lists(st.sampled_from([8, 16]), min_size=1, max_size=5),
)
def test_sizes_that_divide_each_other_fill_nodes_to_the_last_unit(
    sizes: list[int], nodes: list[int]
) -> None:
    needs: list[Units] = [(size,) for size in sizes]
    totals: list[Units] = [(units,) for units in nodes]

    is_packed = pack(make_room(*totals), needs, [1] * len(sizes), sort_by_size(needs, totals))

    assert is_packed == (sum(sizes) <= sum(nodes))


def test_a_worker_without_a_gpu_leaves_the_gpus_alone() -> None:
    room = make_room((4, 2), (8, 0))

    assert room.assign(0, (1, 0), 8) == 8
    assert count_by_node(room) == {(0, 1): 8}


def test_the_tightest_node_is_filled_first() -> None:
    room = make_room((8,), (3,), (5,))

    assert room.assign(0, (2,), 3) == 3
    assert count_by_node(room) == {(0, 1): 1, (0, 2): 2}


def test_free_room_is_used_before_future_room() -> None:
    room = FreeSpace([Vacancy(is_late=True, free=(2,)), Vacancy(is_late=False, free=(2,))])

    assert room.assign(0, (1,), 2) == 2
    assert count_by_node(room) == {(0, 1): 2}


def test_a_worker_without_needs_fits_on_any_node() -> None:
    assert make_room((0,)).assign(0, (0,), 5) == 5
    assert make_room().assign(0, (0,), 5) == 0


def test_changes_of_a_copy_do_not_affect_the_original() -> None:
    room = make_room((4,))
    room.copy().assign(0, (1,), 4)

    assert room.sum_free(1) == [4]
    assert not room.blocks


def test_rare_kinds_are_placed_first_then_large_workers() -> None:
    needs: list[Units] = [(1, 0), (3, 0), (1, 1), (0, 0)]

    assert sort_by_size(needs, [(8, 0), (8, 1)]) == [2, 1, 0, 3]
