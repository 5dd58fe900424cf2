"""Moments agree with exact arithmetic, for all numbers and all splits into parts."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.data.statistics.moments import Moments
from summary_kinds import FLOATS

USUAL = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@given(USUAL)
def test_the_mean_equals_that_of_an_exact_sum(numbers: list[float]) -> None:
    assert Moments.from_numbers(numbers).mean == pytest.approx(
        math.fsum(numbers) / len(numbers), rel=1e-12
    )


@given(USUAL)
def test_the_variance_equals_that_of_exact_arithmetic(numbers: list[float]) -> None:
    expected = float(statistics.pvariance(map(Fraction, numbers)))
    assert expected == Moments.from_numbers(numbers).variance


def test_moments_agree_with_numpy() -> None:
    numbers = np.random.default_rng(8).gamma(2.0, 3.0, 20_000)
    moments = Moments.from_numbers(numbers.tolist())
    assert moments.mean == pytest.approx(numbers.mean(), rel=1e-12)
    assert moments.deviation == pytest.approx(numbers.std(), rel=1e-12)
    assert (moments.least, moments.greatest) == (numbers.min(), numbers.max())


def test_a_mean_far_from_zero_costs_no_digit() -> None:
    spread = [0.0, 1.0, 2.0, 3.0]
    far = [number + 2.0**50 for number in spread]
    parts = [Moments.from_numbers([number]) for number in far]
    assert Moments.from_numbers(spread).variance == Moments.from_numbers(far).variance == 1.25
    assert sum(parts, Moments()).variance == 1.25


def test_empty_moments_have_no_values() -> None:
    moments = Moments()
    assert dict.fromkeys(("min", "max", "mean", "deviation")) == moments.describe()
    assert Moments.from_numbers([]) == moments


def test_moments_beyond_floats_are_omitted() -> None:
    moments = Moments.from_numbers([1.7e308, -1.7e308, 1.7e308])
    assert moments.mean == pytest.approx(1.7e308 / 3)
    assert moments.variance is None
    assert moments.deviation is None


@given(st.lists(FLOATS, min_size=1))
def test_zero_has_one_sign(numbers: list[float]) -> None:
    moments = Moments.from_numbers(numbers)
    assert "-0.0" not in map(str, (moments.least, moments.greatest))
    assert (min(numbers), max(numbers)) == (moments.least, moments.greatest)
