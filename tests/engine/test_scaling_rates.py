"""Speeds and demand of stages, computed from counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling_cases import make_inputs, make_stage
from strandline.engine.autoscaler.model import (
    Measure,
    ScalingParams,
    StageLook,
    find_demand,
    find_left,
    update_measures,
)

PARAMS = ScalingParams()


def look(completed: int, seconds: float, workers: int = 1) -> StageLook:
    return make_stage("s", None, completed=completed, ready=workers, seconds=seconds)  # type: ignore[arg-type]


def measure(*looks: StageLook) -> Measure:
    measures: dict[str, Measure] = {}
    for one in looks:
        measures = update_measures([one], measures, PARAMS)
    return measures["s"]


def test_nothing_is_known_before_a_call_has_ended() -> None:
    assert measure(look(0, 0)).rate is None


def test_a_stage_without_calls_keeps_its_rate() -> None:
    assert measure(look(10, 5), *[look(0, 0)] * 1000).rate == 2


@given(
    looks=st.lists(st.tuples(st.integers(1, 50), st.floats(0.1, 9)), min_size=1, max_size=20),
    cost=st.floats(0.01, 100),
)
def test_a_constant_rate_is_measured_exactly(looks: list[tuple[int, float]], cost: float) -> None:
    rate = measure(*(look(count, count * cost) for count, _ in looks)).rate

    assert rate == pytest.approx(1 / cost)


@given(looks=st.lists(st.tuples(st.integers(0, 50), st.floats(0.1, 9)), min_size=1, max_size=20))
def test_a_rate_is_between_the_measured_rates(looks: list[tuple[int, float]]) -> None:
    rate = measure(*(look(*one) for one in looks)).rate

    seen = [count / seconds for count, seconds in looks]
    assert (rate or 0) <= max(seen) * (1 + 1e-9)
    assert (rate or 0) >= min(seen) * (1 - 1e-9)


def test_after_ten_seconds_per_worker_old_rates_weigh_a_third() -> None:
    rate = measure(look(1000, 1000, workers=10), look(1000, 100, workers=10)).rate

    third = math.exp(-1)
    assert rate == pytest.approx((1000 * third + 1000) / (1000 * third + 100))


def test_a_few_long_tasks_do_not_replace_the_known_rate() -> None:
    assert measure(look(100, 100), look(1, 100)).rate == pytest.approx(0.5, rel=0.01)


def test_zero_measured_time_still_gives_a_rate() -> None:
    assert measure(look(10, 0.0)).rate == pytest.approx(1e6)


def test_demand_is_the_product_of_fan_outs_and_filters_above() -> None:
    stages = [make_stage("a", fan=50), make_stage("b", fan=0.5), make_stage("c")]

    assert find_demand(stages) == [1, 50, 25]


def test_one_to_one_is_assumed_until_a_hundred_tasks_gave_no_output() -> None:
    early = make_stage("a", tasks_in=99, tasks_out=0)
    late = make_stage("a", tasks_in=100, tasks_out=0)

    assert find_demand([early, make_stage("b")]) == [1, 1]
    assert find_demand([late, make_stage("b")]) == [1, 0]


def test_remaining_work_is_unknown_during_the_listing() -> None:
    assert find_left(make_inputs([make_stage("a")], {}), [1.0]) is None


def test_remaining_work_of_a_stage_includes_expected_tasks() -> None:
    stages = [
        make_stage("a", fan=10, waiting=3, running=1),
        make_stage("b", waiting=20, running=0),
        make_stage("c", waiting=0, running=2),
    ]

    left = find_left(make_inputs(stages, {}, sources_left=6), [1.0, 10.0, 10.0])

    assert left == (12.2, [10, 120, 122])
