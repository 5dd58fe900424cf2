"""A time is read as the moment that was written, whichever program wrote it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.notation.times import format_time, parse_time

EARLIEST, LATEST = -62135510400, 253402128000


@given(st.integers(EARLIEST * 1000, LATEST * 1000))
def test_a_formatted_time_is_read_to_the_millisecond(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_time(format_time(seconds)) == seconds


@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_later_times_sort_later(one: int, other: int) -> None:
    assert (one < other) == (format_time(one) < format_time(other))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1795257065, "2026-11-21T10:31:05Z"),
        (1795257065.25, "2026-11-21T10:31:05.250Z"),
        (1795257065.0004, "2026-11-21T10:31:05Z"),
        (-1, "1969-12-31T23:59:59Z"),
    ],
)
def test_a_time_is_in_kubernetes_format(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T10:31:05.123456Z", 1795257065.123456),
        ("2026-11-21T10:31:05.123456789Z", 1795257065.123456),
        ("2026-11-21T12:31:05+02:00", 1795257065),
        ("2026-11-21t10:31:05z", 1795257065),
        ("0001-01-01T00:00:00Z", -62135596800),
    ],
)
def test_a_time_is_read_in_other_formats(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "2026-11-21", "2026-11-21T10:31:05", "2026-W47-6T10:31:05Z"),
        *("2026-13-21T10:31:05Z", "2026-11-21T10:31:61Z", "2026-11-21 10:31:05Z", "x" * 99),
    ],
)
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_time(text)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e12, -1e12])
def test_a_time_outside_of_ten_thousand_years_is_rejected(seconds: float) -> None:
    with pytest.raises(ValueError, match="in the years 1 to 9999"):
        format_time(seconds)
