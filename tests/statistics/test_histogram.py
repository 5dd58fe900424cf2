"""Every number is in the bin with matching bounds, and bins are adjacent."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.data.statistics.histogram import BinCount, EvenBins, GrowingBins, Histogram
from summary_kinds import FLOATS

NORMAL = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)


@given(FLOATS, st.sampled_from([1, 2, 4, 8]))
def test_a_number_is_between_the_bounds_of_its_growing_bin(number: float, steps: int) -> None:
    bins = GrowingBins(steps)
    low, high = bins.bound(bins.find(number))
    assert low <= number <= high
    if number:
        assert number != (high if number > 0 else low) or low == high


@given(NORMAL.filter(bool), st.sampled_from([1, 4]))
def test_a_growing_bin_is_as_wide_as_promised(number: float, steps: int) -> None:
    low, high = GrowingBins(steps).bound(GrowingBins(steps).find(abs(number)))
    assert high == math.inf or high - low <= abs(number) / steps


@given(FLOATS)
def test_numbers_below_zero_mirror_those_above(number: float) -> None:
    assert GrowingBins().find(-number) == -GrowingBins().find(number)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(1, 50), st.data())
def test_even_bins_hold_every_number(
    low: float, width: float, number: int, data: st.DataObject
) -> None:
    bins = EvenBins(low, low + width, number)
    value = data.draw(FLOATS)
    at = bins.find(value)
    assert -1 <= at <= number
    begin, end = bins.bound(at)
    slack = 1e-9 * max(abs(low), width)
    assert begin - slack <= value <= end + slack


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(1, 50))
def test_an_edge_is_in_the_even_bin_that_begins_there(
    low: float, width: float, number: int
) -> None:
    bins = EvenBins(low, low + width, number)
    for at in range(number):
        begin, end = bins.bound(at)
        if begin < end:
            assert bins.find(begin) == at


def test_rounding_never_selects_the_previous_bin() -> None:
    bins = EvenBins(0.1, 0.7, 32)
    assert [4, 10, 12] == [bins.find(bins.bound(at)[0]) for at in (4, 10, 12)]


@pytest.mark.parametrize(
    ("number", "at"), [(-0.1, -1), (0, 0), (9.99, 0), (10, 1), (99.9, 9), (100, 10), (1e9, 10)]
)
def test_ends_of_even_bins_are_open(number: float, at: int) -> None:
    assert at == EvenBins(0, 100, 10).find(number)
    assert EvenBins(0, 100, 10).bound(-1) == (-math.inf, 0)
    assert EvenBins(0, 100, 10).bound(10) == (100, math.inf)


def test_bins_are_listed_adjacent_without_wide_gaps() -> None:
    histogram = Histogram.from_numbers([0, 1, 1.1, 2, 2.9, 1e9])
    shown = histogram.list_bins()
    assert BinCount(0.0, 0.0, 1) == shown[0]
    assert BinCount(1.0, 1.25, 2) == shown[1]
    assert [2, 0, 0, 0, 1, 1, 1] == [each.number for each in shown[1:]]
    assert all(left.high == right.low for left, right in pairwise(shown[1:-1]))
    assert shown[-2].high == 3.0
    assert shown[-1].low <= 1e9 < shown[-1].high
