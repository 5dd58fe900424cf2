"""Workers for each stage: the minimum is kept, and the capacity is never exceeded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.core.pools import (
    CALLS_PER_WORKER,
    HEAVY,
    TELLING_SECONDS,
    FreeWorkers,
    bound_calls,
    bound_queue,
    find_heaviest,
)
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.stage import Stage


def test_a_queue_has_room_for_a_whole_batch() -> None:
    assert bound_queue(16, workers=1) >= 16


@given(waiting=st.integers(0, 100), starting=st.integers(0, 9), batch=st.integers(1, 8))
def test_law_workers_do_not_take_ahead_tasks_for_starting_workers(
    waiting: int, starting: int, batch: int
) -> None:
    most = bound_calls(StagePlan("a", "a", Stage(), batch_size=batch), waiting, starting)

    assert most == (1 if waiting <= starting * batch else CALLS_PER_WORKER)
    assert bound_calls(StagePlan("a", "a", Stage()), 1, 0) == CALLS_PER_WORKER


@given(waiting=st.integers(0, 100), taken=st.integers(0, 100))
def test_law_the_last_calls_wait_for_the_first_free_worker(waiting: int, taken: int) -> None:
    most = bound_calls(StagePlan("a", "a", Stage()), waiting, 0, taken)

    assert most == (1 if waiting <= taken else CALLS_PER_WORKER)


free_workers = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, CALLS_PER_WORKER)), max_size=8
)
near_bytes = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 10**9))


@given(workers=free_workers, nears=st.lists(near_bytes, max_size=12), data=st.data())
def test_law_calls_go_where_a_full_scan_of_workers_would_send_them(
    workers: list[tuple[str, int]], nears: list[dict[str, int]], data: st.DataObject
) -> None:
    """First an idle worker, then a worker near most of the input, then a worker with few calls."""
    calls = dict(enumerate(number for _, number in workers))
    free = FreeWorkers((node, calls[each], each) for each, (node, _) in enumerate(workers))
    for near in nears:
        most = data.draw(st.integers(1, CALLS_PER_WORKER))
        open_ones = [each for each in calls if calls[each] < most]

        assert free.has(most) == bool(open_ones)
        if not open_ones:
            continue
        ranks = {
            each: (calls[each] > 0, -near.get(workers[each][0], 0), calls[each])
            for each in open_ones
        }
        chosen = free.take(most, near)
        assert ranks[chosen] == min(ranks.values())
        calls[chosen] += 1


@given(workers=free_workers)
def test_law_free_workers_on_several_nodes_count_as_spread(
    workers: list[tuple[str, int]],
) -> None:
    free = FreeWorkers((node, calls, each) for each, (node, calls) in enumerate(workers))

    assert free.is_spread == (len({n for n, calls in workers if calls < CALLS_PER_WORKER}) > 1)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1e6)))
def test_law_a_stage_is_named_only_if_it_has_most_of_the_work(seconds: dict[str, float]) -> None:
    """A named stage has at least two fifths of all work, and the largest share."""
    found = find_heaviest({name: StageCounts(seconds=each) for name, each in seconds.items()})
    total = sum(seconds.values())
    if found is None:
        assert total < TELLING_SECONDS or max(seconds.values()) < HEAVY * total
    else:
        assert seconds[found] == max(seconds.values()) >= HEAVY * total
