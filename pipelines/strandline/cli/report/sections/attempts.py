"""Builds the section about attempts: a timeline, and a table of their times and outcomes.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from strandline.cli.report.axes import Span, TimeAxis
from strandline.cli.report.charts import Bar, draw_timeline
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.formats import format_duration, format_timestamp
from strandline.cli.report.sections.overview import classify_end
from strandline.cli.views.attempt import AttemptSummary
from strandline.run.insight.records import Witness

EVIDENCE = 20  # maximum number of displayed observations of an attempt
_KINDS = (
    ("finished", "completed", ""),
    ("inflight", "running", ""),
    ("disrupted", "interrupted from outside", ""),
    ("failed", "failed", ""),
    ("waiting", "end unknown", ""),
)


def draw_attempts(facts: RunFacts) -> tuple[str, Markup, list[tuple[str, str, str]]]:
    """Return the caption, the timeline, and the legend of the attempts."""
    views = facts.attempts.items
    axis = TimeAxis(_span(view, facts) for view in views)
    bars = [_make_bar(view, facts, axis) for view in views]
    used = {bar.kind for bar in bars}
    title = "Attempts over time (UTC): " + ", ".join(map(_name, views))
    gap = "; grey parts are shortened because nothing ran" if axis.breaks else ""
    legend = [kind for kind in _KINDS if kind[0] in used]
    return f"over time (UTC){gap}", draw_timeline(title, bars, axis), legend


def list_times(facts: RunFacts) -> Iterator[tuple[AttemptSummary, str, str]]:
    """Yield each attempt with the pause before it and its duration."""
    before: Span | None = None
    for view in facts.attempts.items:
        span = _span(view, facts)
        begin, end = span
        after = "" if before is None else format_duration(max(0.0, begin - before.end))
        yield view, after, format_duration(end - begin if end > begin else view.seconds)
        before = span


def find_span(view: AttemptSummary, now: float) -> Span:
    """Return the time from an attempt's start to its recorded end, or to its last sign of life."""
    record = view.record
    end = record.ended if record.ended is not None else record.started + (view.seconds or 0.0)
    # Limit the end to the current time: the clocks of hosts may differ, and an end in the future
    # would stretch the axis.
    return Span(record.started, max(record.started, min(end, max(now, record.started))))


def _span(view: AttemptSummary, facts: RunFacts) -> Span:
    """Return the attempt's span. If no end was recorded, it ends at the last sign of life."""
    span = find_span(view, facts.time)
    samples = facts.samples.get(view.record.number)
    if samples is None or not samples.samples:
        return span
    sign = max(span.begin, samples.begun + samples.samples[-1].seconds)
    if view.record.ended is None:
        return Span(span.begin, max(span.end, sign))
    # For such an end, older releases recorded the start of the next attempt.
    if view.record.witness is Witness.SUCCESSOR:
        return Span(span.begin, min(span.end, sign))
    return span


def _make_bar(view: AttemptSummary, facts: RunFacts, axis: TimeAxis) -> Bar:
    begin, end = _span(view, facts)
    label = _name(view)
    hint = f"attempt {label}: {format_timestamp(begin)} to {format_timestamp(end)} UTC"
    return Bar(axis.find_position(begin), axis.find_position(end), label, classify_end(view), hint)


def _name(view: AttemptSummary) -> str:
    return f"{view.record.number} {name_end(view)}"


def name_end(view: AttemptSummary) -> str:
    """Return the cause of an attempt's end, or its state."""
    return view.record.cause.value if view.record.cause else view.state.value
