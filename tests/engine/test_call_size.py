"""The number of tasks in a call: laws for any cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.core.call_size import (
    CALL_BYTES,
    CALL_SECONDS,
    CALL_TASKS,
    ROUNDS,
    StageLoad,
    TaskCost,
    bound_call,
    level_calls,
    size_call,
)
from strandline.plan.receipt import StageCounts

seconds = st.floats(0.0, 100.0)
sizes = st.integers(0, 10**9)
batches = st.integers(1, 100)


def make_cost(seconds: float = 0.0, made: int = 0) -> TaskCost:
    """Return the cost that is known after a call with one task."""
    cost = TaskCost()
    cost.note(StageCounts(tasks_in=1, tasks_out=1, seconds=seconds), made)
    cost.note_part(1, made)
    return cost


@given(seconds, sizes, sizes, batches, st.integers(0, 10_000), st.integers(0, 100))
def test_law_a_call_is_a_whole_number_of_batches_and_neither_long_nor_large(
    each: float, made: int, bytes_in: int, batch: int, waiting: int, workers: int
) -> None:
    most = bound_call(make_cost(each, made), bytes_in, batch)
    tasks = size_call(most, batch, waiting, workers)

    assert tasks >= batch
    assert tasks % batch == 0
    if tasks > batch:
        assert tasks <= CALL_TASKS
        assert tasks * each <= CALL_SECONDS * 1.000001
        assert tasks * max(made, bytes_in) <= CALL_BYTES * 1.000001
        assert tasks * workers <= waiting or workers <= 1
    assert tasks <= most


def test_quick_and_small_tasks_are_sent_in_large_calls() -> None:
    assert bound_call(make_cost(1e-6, 100), 100, 1) == CALL_TASKS
    assert bound_call(make_cost(1e-6, 100), 100, 24) == 240
    assert bound_call(make_cost(0.0), 0, 1) == CALL_TASKS
    assert bound_call(make_cost(0.005), 0, 1) == 4
    assert bound_call(make_cost(0.0, 300_000), 0, 1) == 3


def test_without_measurements_a_call_is_a_batch() -> None:
    cost = TaskCost()
    cost.note(StageCounts(seconds=1.0), 10**9)  # no input task
    assert cost.seconds is None
    assert bound_call(cost, 0, 3) == 3


def test_the_last_tasks_are_shared_among_workers() -> None:
    assert [size_call(16, 2, waiting, 4) for waiting in (64, 33, 9, 1)] == [16, 8, 2, 2]


loads = st.lists(
    st.builds(
        lambda batches, batch, workers, ratio: StageLoad(batches * batch, batch, workers, ratio),
        st.integers(1, CALL_TASKS),
        batches,
        st.integers(1, 30),
        st.sampled_from([0.0, 0.01, 0.5, 1.0, 7.0]) | st.floats(0.001, 1000.0),
    ),
    min_size=1,
    max_size=8,
)


@given(loads)
def test_law_a_stage_takes_no_more_than_later_stages_process_in_a_few_rounds(
    stages: list[StageLoad],
) -> None:
    sizes = level_calls(stages)

    for stage, (load, size) in enumerate(zip(stages, sizes, strict=True)):
        assert load.batch <= size <= load.call
        assert size % load.batch == 0
        made: float = (size - load.batch) * load.workers  # a call has at least one batch
        for below in range(stage + 1, len(stages)):
            made *= stages[below - 1].ratio
            assert made <= ROUNDS * stages[below].call * stages[below].workers * 1.000001


@pytest.mark.parametrize(
    ("calls", "ratios", "wanted"),
    [
        ((256, 256, 256), (1, 1, 1), [256, 256, 256]),
        ((256, 256, 1), (1, 1, 1), [2, 2, 1]),
        ((1, 256, 256), (1, 1, 1), [1, 256, 256]),
        ((256, 256, 1), (1, 100, 1), [1, 1, 1]),  # fans out
        ((256, 256, 1), (0.1, 1, 1), [20, 2, 1]),  # filters
        ((256, 256, 1), (0, 1, 1), [256, 2, 1]),  # passes nothing
    ],
)
def test_a_quick_stage_adapts_to_the_slowest_later_stage(
    calls: tuple[int, ...], ratios: tuple[float, ...], wanted: list[int]
) -> None:
    stages = [StageLoad(call, 1, 1, ratio) for call, ratio in zip(calls, ratios, strict=True)]

    assert level_calls(stages) == wanted


def test_long_calls_of_a_sink_consist_of_results_of_short_calls() -> None:
    sink = StageLoad(5, 1, 1, 1.0, pace=1)
    assert level_calls([StageLoad(256, 1, 1, 1.0), sink]) == [2, 5]


def test_one_quick_worker_feeds_many_slow_workers() -> None:
    assert level_calls([StageLoad(256, 1, 1, 1.0), StageLoad(4, 1, 20, 1.0)]) == [160, 4]


@given(st.lists(st.tuples(seconds, sizes), min_size=1))
def test_law_a_cost_is_between_the_measured_costs(seen: list[tuple[float, int]]) -> None:
    cost = TaskCost()
    for each, made in seen:
        cost.note(StageCounts(tasks_in=1, tasks_out=1, seconds=each), made)
        cost.note_part(1, made)
    assert cost.seconds is not None
    slack = 1e-9 * max(one for one, _ in seen)
    assert (
        min(one for one, _ in seen) - slack <= cost.seconds <= max(one for one, _ in seen) + slack
    )
    most = max(size for _, size in seen)
    assert cost.bytes_made <= most * 1.000001
    assert cost.bytes_out <= most * 1.000001


def test_a_slowdown_of_calls_is_adopted_soon() -> None:
    cost = make_cost(1e-6)
    cost.note(StageCounts(tasks_in=1, tasks_out=1, seconds=1.0), 0)
    assert bound_call(cost, 0, 1) == 1


def test_filtered_tasks_do_not_affect_the_output_size() -> None:
    cost = make_cost(0.0, 400)
    cost.note(StageCounts(tasks_in=3, tasks_out=0, filtered=3), 0)
    cost.note_part(0, 0)
    assert (cost.bytes_made, cost.bytes_out) == (300.0, 400.0)


def test_the_size_of_tasks_is_known_before_the_first_call_has_ended() -> None:
    above, below = TaskCost(), make_cost(1e-6)
    assert bound_call(below, above.bytes_out, 1) > 1
    above.note_part(2, 2 * CALL_BYTES)
    assert bound_call(below, above.bytes_out, 1) == 1
