"""Figures about requests, from counters summed over workers and attempts."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.cli.views.format import describe_requests
from strandline.data.statistics.request_figures import (
    LIMITS,
    NO_REQUESTS,
    SHARES,
    format_cost,
    name_time,
    read_figures,
)

# Include the limits, where off-by-one errors would show.
times = st.lists(st.floats(0, 2000) | st.sampled_from(LIMITS), min_size=1, max_size=60)


def count(seconds: list[float]) -> Counter[str]:
    return Counter(map(name_time, seconds))


def find_percentile(seconds: list[float], share: float) -> float:
    """Return the nearest-rank percentile."""
    return sorted(seconds)[max(1, math.ceil(share * len(seconds))) - 1]


@given(times, times)
def test_law_joined_times_of_workers_equal_the_times_of_one(
    first: list[float], second: list[float]
) -> None:
    assert read_figures(count(first) + count(second)) == read_figures(count(first + second))


@given(times)
def test_law_a_percentile_is_between_the_bounds_of_its_bin(seconds: list[float]) -> None:
    told = read_figures(count(seconds)).times
    assert len(told) == len(SHARES)
    for share, bound in zip(SHARES, told, strict=True):
        below = max((limit for limit in (0.0, *LIMITS) if limit < bound), default=0.0)
        exact = find_percentile(seconds, share)
        assert exact <= bound
        assert below < exact or exact == below == 0


def test_a_stage_without_requests_has_no_figures() -> None:
    assert read_figures({"dropped: short": 3}) == NO_REQUESTS
    assert not NO_REQUESTS.has_any


def test_figures_are_a_sentence() -> None:
    counters = {
        "requests": 1200,
        "requests answered by the log": 34,
        "spent: prompt tokens": 50_000,
        "spent: completion tokens": 2_000,
        "spent: cost, in thousandths": 1_250,
        **count([0.3] * 900 + [4.0] * 280 + [900.0] * 20),
    }
    assert describe_requests(read_figures(counters)) == (
        "1,200 requests, 34 answered by the log, 50,000 tokens in, 2,000 out, cost 1.25; "
        "of answers 50% within 0.5 s, 95% within 5 s, 99% after longer"
    )
    assert describe_requests(read_figures({"requests": 1})) == "1 request"


def test_costs_of_attempts_of_two_releases_are_one_sum() -> None:
    counters = {"spent: cost, in thousandths": 1_250, "spent: cost, in millionths": 42}
    assert read_figures(counters).cost == pytest.approx(1.250042)
    assert read_figures({"requests": 1}).cost is None


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (0, "0.00"),
        (1234.5, "1,234.50"),
        (0.39, "0.39"),
        (0.01, "0.01"),
        (0.0042, "0.0042"),
        (0.00004249, "0.000042"),
        (0.0091, "0.0091"),
    ],
)
def test_a_small_cost_is_not_shown_as_zero(cost: float, shown: str) -> None:
    assert format_cost(cost) == shown
