"""Positions of times and numbers: ordered, within the picture, with shortened idle times."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.cli.report.axes import GAP, ROOM, TICKS, Span, TimeAxis, ceil_nice
from strandline.cli.report.formats import format_timestamp

moments = st.floats(0, 4e9, allow_nan=False)
spans = st.lists(
    st.builds(lambda begin, length: Span(begin, begin + length), moments, st.floats(0, 1e6)),
    max_size=20,
)
# Much shorter spans are indistinguishable near times since the epoch.
worked = spans.filter(lambda spans: sum(end - begin for begin, end in spans) > 1)


@example(spans=[Span(0, 1e-38), Span(2, 2)], times=[1, 2])  # 2 + 1e-38 - 2 is zero
@given(spans=spans, times=st.lists(moments, min_size=2))
def test_law_time_goes_from_left_to_right_within_the_picture(
    spans: list[Span], times: list[float]
) -> None:
    axis = TimeAxis(spans)
    places = [axis.find_position(time) for time in sorted(times)]
    assert all(left <= right for left, right in pairwise(places))
    assert all(0 <= place <= 1 for place in places)


@given(spans=worked)
def test_law_the_whole_width_is_used_and_breaks_are_short(spans: list[Span]) -> None:
    axis = TimeAxis(spans)
    assert axis.find_position(min(span.begin for span in spans)) == 0
    assert axis.find_position(max(span.end for span in spans)) == pytest.approx(1)
    for left, right in axis.breaks:
        assert 0 <= left < right <= 1
        assert right - left <= GAP * 1.0001


@given(spans=worked, time=moments)
def test_law_a_picture_without_breaks_is_true_to_time(spans: list[Span], time: float) -> None:
    axis = TimeAxis(spans)
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    if not axis.breaks:
        share = (min(max(time, begin), end) - begin) / (end - begin)
        assert axis.find_position(time) == pytest.approx(share, abs=1e-5)


@given(spans=worked)
def test_law_ticks_are_spaced_and_outside_of_breaks(spans: list[Span]) -> None:
    axis = TimeAxis(spans)
    places = [place for place, _ in axis.list_ticks()]
    assert 1 <= len(places) <= 1 + 1 / ROOM
    assert all(right - left > ROOM * 0.999 for left, right in pairwise(places))
    assert not [at for at in places for left, right in axis.breaks if left < at < right - 1e-9]


@given(spans=worked, place=st.floats(0, 1))
def test_law_position_and_time_are_inverse(spans: list[Span], place: float) -> None:
    axis = TimeAxis(spans)
    assert axis.find_position(axis.find_time(place)) == pytest.approx(place, abs=1e-5)


def test_times_that_overlap_are_one_stretch() -> None:
    axis = TimeAxis([Span(50, 100), Span(0, 60), Span(10, 20)])
    assert axis.breaks == []
    assert [axis.find_position(time) for time in (0, 25, 100)] == [0, 0.25, 1]


def test_a_wait_is_as_long_as_it_was() -> None:
    axis = TimeAxis([Span(0, 50), Span(150, 200)])
    assert axis.breaks == []
    assert [axis.find_position(time) for time in (50, 100, 150)] == [0.25, 0.5, 0.75]


def test_a_wait_that_would_hide_other_spans_is_shortened() -> None:
    axis = TimeAxis([Span(0, 50), Span(52, 102), Span(100_000, 100_098)])
    ((left, right),) = axis.breaks
    assert right - left == pytest.approx(GAP * 198 / (200 + GAP * 198))
    assert axis.find_position(51) == pytest.approx(51 / (200 + GAP * 198))
    assert [text for _, text in axis.list_ticks()] == ["01-01 00:00", "01-02 03:46", "01-02 03:48"]


def test_ticks_show_the_day_only_if_there_are_several() -> None:
    short = TimeAxis([Span(0, 30)]).list_ticks()
    assert short == [
        (0, "00:00:00"),
        (pytest.approx(1 / 3), "00:00:10"),
        (pytest.approx(2 / 3), "00:00:20"),
        (1, "00:00:30"),
    ]
    long = TimeAxis([Span(0, 300_000)]).list_ticks()
    assert long[0][1] == "01-01 00:00"
    assert TimeAxis([Span(5, 5)]).list_ticks() == [(0, "00:00:05")]
    assert len(TimeAxis([]).list_ticks()) == 1


@pytest.mark.parametrize("moment", [1e18, -1e18, 1e300, math.inf, math.nan])
def test_a_time_outside_the_calendar_is_unknown(moment: float) -> None:
    axis = TimeAxis([Span(0, 30), Span(moment, moment)])
    assert {text for _, text in TimeAxis([Span(1e18, 2e18)]).list_ticks()} == {"unknown"}
    assert format_timestamp(moment) == "unknown"
    assert 0 <= axis.find_position(moment) <= 1
    assert len(axis.list_ticks()) in {2, TICKS}


@given(number=st.floats(1e-6, 1e12))
def test_law_a_nice_number_is_at_least_the_number_and_close_to_it(number: float) -> None:
    nice = ceil_nice(number)
    assert number <= nice * 1.0001
    assert nice <= 2.5001 * number


def test_nice_numbers() -> None:
    found = [ceil_nice(number) for number in (0, -1, 0.3, 1, 11, 23, 51, float("inf"))]
    assert found == [1, 1, 0.5, 1, 20, 50, 100, 1]
