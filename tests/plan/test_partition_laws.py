"""Laws of joining and packing, for all declarations of shared files and all orders."""

from __future__ import annotations

import heapq
import tracemalloc
from collections.abc import Iterable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.partition import (
    LargestGroup,
    StorageGroups,
    find_chain,
    find_chunk,
    find_largest,
    find_usual_size,
    pack,
)

Shares = Sequence[tuple[set[str], set[str]]]
Groups = frozenset[frozenset[int]]

# Names shared by the source's and by the sink's declaration; few names, so that items overlap.
ENDS = ("file", "chunk")
NAMES = [st.sets(st.sampled_from([f"{end} {n}" for n in range(6)]), max_size=2) for end in ENDS]
SHARES = st.lists(st.tuples(*NAMES), max_size=14)
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=7)


def join(shares: Iterable[Iterable[str]]) -> Groups:
    joining = StorageGroups()
    for names in shares:
        joining.add(names)
    groups: dict[int, set[int]] = {}
    for item in range(len(joining)):
        groups.setdefault(joining.find(item), set()).add(item)
    return frozenset(map(frozenset, groups.values()))


def join_by_hand(shares: Sequence[set[str]]) -> Groups:
    """Merge overlapping groups until there are none: the reference implementation."""
    groups = [({item}, set(names)) for item, names in enumerate(shares)]
    while True:
        found = next((pair for pair in combinations(groups, 2) if pair[0][1] & pair[1][1]), None)
        if found is None:
            return frozenset(frozenset(items) for items, _ in groups)
        (one, its), (other, others) = found
        groups = [group for group in groups if group not in found]
        groups.append((one | other, its | others))


def find_optimum(sizes: Sequence[int], workers: int) -> int:
    """Return the minimum of the largest load over all assignments of groups to workers."""
    return min(
        max(sum(size for size, to in zip(sizes, way, strict=True) if to == one) for one in way)
        for way in product(range(workers), repeat=len(sizes))
    )


@given(shares=SHARES)
def test_every_index_is_in_exactly_one_group(shares: Shares) -> None:
    groups = join(share | other for share, other in shares)
    assert sorted(item for group in groups for item in group) == list(range(len(shares)))


@given(shares=SHARES)
def test_a_group_respects_both_sides(shares: Shares) -> None:
    groups = join(share | other for share, other in shares)
    for side in (0, 1):
        for (a, first), (b, second) in combinations(enumerate(shares), 2):
            if first[side] & second[side]:
                assert any({a, b} <= group for group in groups)


@given(shares=SHARES)
def test_joining_is_the_least_partition_that_respects_both_sides(shares: Shares) -> None:
    names = [share | other for share, other in shares]
    assert join(names) == join_by_hand(names)


@given(shares=SHARES, data=st.data())
def test_the_order_of_declaration_does_not_matter(shares: Shares, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shares))))
    swapped = join([*sorted(shares[item][1]), *shares[item][0]] for item in order)
    straight = join([*sorted(shares[item][0]), *shares[item][1]] for item in range(len(shares)))
    assert frozenset(frozenset(order[place] for place in group) for group in swapped) == straight


@given(shares=SHARES)
def test_a_chain_links_the_first_of_a_group_with_the_farthest(shares: Shares) -> None:
    names = {f"item {n:02d}": share | other for n, (share, other) in enumerate(shares)}
    for group in join(names.values()):
        own = {key: names[key] for key in (f"item {item:02d}" for item in sorted(group))}
        chain = find_chain(own)
        assert chain[0] == min(own)
        for at in range(0, len(chain) - 2, 2):
            assert chain[at + 1] in own[chain[at]] & own[chain[at + 2]]
        assert len(chain[::2]) == len(set(chain[::2]))
        steps = count_steps(own, chain[0])
        assert len(steps) == len(own)
        assert len(chain) // 2 == steps[chain[-1]] == max(steps.values())


def test_memory_for_a_long_chain_grows_only_with_its_length() -> None:
    shares = {f"{n:05}": [f"{n:05}", f"{n + 1:05}"] for n in range(20_000)}
    tracemalloc.start()
    chain = find_chain(shares)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert chain[::2] == sorted(shares)
    assert peak < 50_000_000


def count_steps(shares: dict[str, set[str]], begin: str) -> dict[str, int]:
    """Return the number of links between `begin` and each item."""
    steps = {begin: 0}
    for _ in shares:
        for near, far in product(list(steps), shares):
            if far not in steps and shares[near] & shares[far]:
                steps[far] = steps[near] + 1
        steps |= {
            far: min(
                [steps[far], *(steps[near] + 1 for near in steps if shares[near] & shares[far])]
            )
            for far in list(steps)
        }
    return steps


@given(sizes=SIZES, workers=st.integers(1, 3))
def test_the_largest_load_is_within_four_thirds_of_the_optimum(
    sizes: list[int], workers: int
) -> None:
    balance = pack(sizes, workers)
    assert sum(balance.loads) == sum(sizes)
    assert len(balance.loads) == workers
    assert max(balance.loads) * 3 <= 4 * find_optimum(sizes, workers)


@given(sizes=SIZES, workers=st.integers(1, 4))
def test_workers_that_take_the_next_group_when_free_get_the_same_loads(
    sizes: list[int], workers: int
) -> None:
    free_at = [(0, worker) for worker in range(workers)]
    loads = [0] * workers
    for size in pack(sizes, workers).sizes:  # in the order of release
        time, worker = heapq.heappop(free_at)
        loads[worker] += size
        heapq.heappush(free_at, (time + size, worker))
    assert sorted(loads, reverse=True) == pack(sizes, workers).loads


@pytest.mark.parametrize(
    ("sizes", "workers", "loads", "ratio"),
    [
        ([1], 1, [1], 1.0),
        ([1], 3, [1, 0, 0], 3.0),
        ([2, 3, 4, 6, 2, 2], 3, [7, 6, 6], 21 / 19),
        ([3, 3, 2, 2, 2], 2, [7, 5], 7 / 6),  # worst case of the greedy algorithm
    ],
)
def test_groups_are_packed_largest_first(
    sizes: list[int], workers: int, loads: list[int], ratio: float
) -> None:
    balance = pack(sizes, workers)
    assert (balance.sizes, balance.loads) == (sorted(sizes, reverse=True), loads)
    assert balance.ratio == pytest.approx(ratio)


def test_intersected_groups_would_let_two_workers_write_one_chunk() -> None:
    """With chunks of two steps over files of three, steps 2 and 3 share a chunk: one group."""
    shares = [{f"file {step // 3}", f"chunk {step // 2}"} for step in range(6)]
    assert join(shares) == {frozenset(range(6))}
    apart = join([f"{step // 3}/{step // 2}"] for step in range(6))  # intersected
    writers_of_chunk_1 = [group for group in apart if group & {2, 3}]
    assert len(writers_of_chunk_1) == 2


@given(shares=SHARES)
def test_the_largest_group_is_a_chain_if_its_sources_have_nothing_in_common(
    shares: Shares,
) -> None:
    names = [share | other for share, other in shares]
    largest = find_largest(names)
    groups = join_by_hand(names)
    biggest = [group for group in groups if len(group) == largest.size]
    assert (largest.size, largest.total) == (max(map(len, groups), default=0), len(names))
    assert largest.holds_most == (len(names) < 2 * largest.size)
    linked = {
        len(group) > 1 and not set.intersection(*(names[n] for n in group)) for group in biggest
    }
    assert largest.is_chain in (linked or {False})


@given(shares=SHARES)
def test_the_usual_size_is_the_most_frequent_size(shares: Shares) -> None:
    names = [share | other for share, other in shares]
    sizes = [len(group) for group in join_by_hand(names)]
    usual = find_usual_size(names)
    assert sizes.count(usual) == max(map(sizes.count, sizes), default=0)


def lay_out(steps: int, per_file: int, chunk: int) -> list[set[str]]:
    return [{f"file {step // per_file}", f"chunk {step // chunk}"} for step in range(steps)]


@given(
    steps=st.integers(1, 200),
    per_file=st.integers(1, 40),
    chunk=st.integers(2, 150),
    data=st.data(),
)
def test_a_chunk_without_chains_is_found_if_files_are_small_enough(
    steps: int, per_file: int, chunk: int, data: st.DataObject
) -> None:
    most = data.draw(st.integers(1, steps))

    def measure(other: int) -> LargestGroup:
        return find_largest(lay_out(steps, per_file, other))

    usual = find_usual_size([{f"file {step // per_file}"} for step in range(steps)])
    found = find_chunk(chunk, usual, most, measure)
    if found is None:  # even groups of single files are too large
        assert min(per_file, steps) > min(most, steps / 2)
        return
    other, largest = found
    assert other > 0
    assert other != chunk
    assert largest == measure(other)
    assert largest.size <= min(most, steps / 2)
    assert not largest.is_chain


@pytest.mark.parametrize(
    ("per_file", "chunk", "other"),
    [(24, 10, 12), (24, 20, 24), (30, 365, 360), (365, 100, 73), (1000, 700, 500), (1, 3, 4)],
)
def test_the_nearest_chunk_by_ratio_is_found(per_file: int, chunk: int, other: int) -> None:
    assert find_chunk(
        chunk, per_file, 1000, lambda each: find_largest(lay_out(2001, per_file, each))
    ) == (other, find_largest(lay_out(2001, per_file, other)))


def test_a_disallowed_chunk_is_not_found() -> None:
    def measure(chunk: int) -> LargestGroup | None:
        return find_largest(lay_out(100, 12, chunk)) if chunk % 2 else None

    found = find_chunk(10, 12, 1000, measure)
    assert found is not None
    assert 3 == found[0]  # 12 and 6 fit the files' borders better but are not allowed
