"""How cards, reports, and `tune` format integers and decimal fractions."""

from __future__ import annotations

import pytest

from strandline.cli.views.format import format_measure


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (1_125_740, "1,125,740"),
        (1_125_740.0, "1,125,740"),
        (-2_000_001, "-2,000,001"),
        (999_999_999_999_999, "999,999,999,999,999"),
        (1_125_740.25, "1,125,740"),
        (12_345.678, "12,345.7"),
        (0.123456789, "0.123457"),
        (0.5, "0.5"),
        (3.0, "3"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_whole_number_keeps_all_its_digits(number: float, shown: str) -> None:
    assert format_measure(number) == shown
