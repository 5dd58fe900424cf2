"""Charts are complete SVG with a description, and show their data."""

from __future__ import annotations

import re
from itertools import accumulate
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_builders import sampled
from strandline.cli.report.axes import Span, TimeAxis
from strandline.cli.report.charts import Bar, Part, RateStep, draw_parts, draw_rate, draw_timeline
from strandline.cli.report.rates import STEPS, measure_finished, measure_stage, span_of, trace
from strandline.run.insight.samples import Sample, Samples, StagePoint

AXIS = TimeAxis([Span(0, 100)])


def parse(chart: str) -> ET.Element:
    return ET.fromstring(chart)  # noqa: S314 - our own


def read_percent(text: str | None) -> float:
    assert text
    assert text.endswith("%")
    return float(text[:-1])


def test_a_timeline_has_a_labelled_bar_an_attempt_and_an_axis() -> None:
    bars = [
        Bar(0, 0.4, "1 Preempted", "disrupted", "from then to then"),
        Bar(0.9, 0.9, "2 Killed", "failed", "at once"),
    ]
    chart = parse(draw_timeline("Attempts", bars, AXIS))
    assert (chart.get("role"), chart.get("aria-label")) == ("img", "Attempts")
    assert chart.findtext("title") == "Attempts"
    rects = chart.findall("rect")
    assert [rect.get("class") for rect in rects] == ["disrupted", "failed"]
    assert [rect.findtext("title") for rect in rects] == ["from then to then", "at once"]
    assert all(read_percent(rect.get("width")) > 0 for rect in rects)
    texts = {text.text: text for text in chart.findall("text")}
    assert texts["1 Preempted"].get("text-anchor") == "start"
    assert texts["2 Killed"].get("text-anchor") == "end"
    assert {"00:00:00", "00:01:40"} <= set(texts)


def test_omitted_time_is_marked() -> None:
    axis = TimeAxis([Span(0, 10), Span(10_000, 10_010)])
    chart = parse(draw_timeline("Attempts", [], axis))
    assert [rect.get("class") for rect in chart.findall("rect")] == ["gap"]


@given(numbers=st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
def test_law_shares_fill_the_bar_and_every_share_is_visible(numbers: list[int]) -> None:
    parts = [Part(f"state {place}", number, f"k{place}") for place, number in enumerate(numbers)]
    chart = parse(draw_parts("Sources", parts))
    drawn = {rect.get("class"): rect for rect in chart.findall("rect")}
    assert drawn.keys() - {"empty"} == {part.kind for part in parts if part.number}
    for part in parts:
        if part.number:
            width = read_percent(drawn[part.kind].get("width"))
            assert width >= 100 * part.number / sum(numbers) - 0.01
            assert width > 0
            assert read_percent(drawn[part.kind].get("x")) + width <= 100.02


def test_a_rate_is_an_area_up_to_its_height() -> None:
    stretch = [RateStep(0, 0.5, 10), RateStep(0.5, 1, 5)]
    chart = parse(draw_rate("Tasks", [stretch], AXIS, "/s"))
    path = chart.find("svg/path")
    assert path is not None
    assert path.get("d") == "M0.0 100V0.0H500.0V50.0H1000.0V100H1000.0Z"
    texts = [text.text for text in chart.findall("text")]
    assert texts[:2] == ["10/s", "5/s"]


def test_the_area_of_many_samples_is_whole() -> None:
    """A path must not be truncated like a text."""
    steps = [RateStep(at / 500, (at + 1) / 500, at % 7 + 1) for at in range(500)]
    path = parse(draw_rate("Tasks", [steps], AXIS, "/s")).find("svg/path")
    assert path is not None
    drawn = path.get("d") or ""
    assert (drawn.count("V"), drawn[-1]) == (501, "Z")


def test_nothing_to_draw_is_still_a_chart() -> None:
    chart = parse(draw_rate("Tasks", [], AXIS, "/s"))
    assert chart.find("svg/path") is None
    assert parse(draw_parts("Sources", [Part("finished", 0, "finished")])).findtext("title")


def test_rates_cover_the_work_between_two_samples() -> None:
    attempts = {1: sampled(0, 0, 50, 50, 80), 2: sampled(100, 0, 10)}
    axis = TimeAxis(map(span_of, attempts.values()))
    first, second = trace(attempts, axis, measure_finished)
    assert [step.rate for step in first] == [5, 0, 3]
    assert [step.rate for step in second] == [1]
    assert first[0].begin == 0
    assert second[-1].end == 1
    assert list(trace(attempts, axis, measure_stage("unknown"))) == []


@given(
    counts=st.lists(st.lists(st.integers(0, 1000), max_size=60), min_size=1, max_size=10),
    begun=st.lists(st.floats(0, 1e6), min_size=10, max_size=10),
)
def test_law_a_chart_is_bounded_and_no_rate_is_negative(
    counts: list[list[int]], begun: list[float]
) -> None:
    attempts = {}
    for number, done in enumerate(counts):
        attempts[number] = sampled(begun[number], *accumulate(done))
    axis = TimeAxis(map(span_of, attempts.values()))
    stretches = list(trace(attempts, axis, measure_stage("read")))
    assert sum(map(len, stretches)) <= STEPS + 3 * len(counts) + 1
    for stretch in stretches:
        assert all(step.rate >= 0 for step in stretch)
        assert all(0 <= step.begin <= step.end <= 1 for step in stretch)


def test_a_long_attempt_is_drawn_in_few_steps() -> None:
    long = {1: sampled(0, *range(0, 5000, 10)), 2: sampled(4990, *range(0, 5000, 10))}
    axis = TimeAxis(map(span_of, long.values()))
    stretches = list(trace(long, axis, measure_finished))
    assert 200 < sum(map(len, stretches)) <= STEPS
    assert {round(step.rate, 6) for stretch in stretches for step in stretch} == {1}


def test_a_stage_missing_from_a_sample_counts_as_zero() -> None:
    odd = Samples(begun=0, stages=("a", "b"), samples=(Sample(9, 1, 0, (StagePoint(5, 5),)),))
    (stretch,) = trace({1: odd}, TimeAxis([span_of(odd)]), measure_stage("b"))
    assert [step.rate for step in stretch] == [0]


@pytest.mark.parametrize("label", ["<b>", "a & b", '"'])
def test_labels_are_text(label: str) -> None:
    chart = parse(draw_timeline(label, [Bar(0, 1, label, "failed", label)], AXIS))
    assert chart.findtext("title") == label
    assert re.search(r"<b>", ET.tostring(chart).decode()) is None
