"""The attempts: when each ran, how it ended, and what was seen of that. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.cli.report.axes import Span, TimeAxis
from strandline.cli.report.charts import Bar, draw_timeline
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.sections.overview import classify_end
from strandline.cli.report.tables import (
    Cell,
    make_figure,
    make_legend,
    make_note,
    make_section,
    make_table,
    say_more,
    spell_length,
    spell_time,
)
from strandline.cli.views.attempt import AttemptView
from strandline.cli.views.format import spell_count

EVIDENCE = 20  # pieces of one attempt
_COLUMNS = (
    "attempt",
    "trigger",
    "started (UTC)",
    "#after",
    "#lasted",
    "#finished",
    "#skipped",
    "#failed",
    "end",
    "message",
)
_KINDS = (
    ("finished", "completed", ""),
    ("inflight", "running", ""),
    ("disrupted", "interrupted from outside", ""),
    ("failed", "ended badly", ""),
    ("waiting", "end not known", ""),
)


def make_attempts(facts: RunFacts) -> Markup:
    """A timeline of the attempts, a table, and for each that ended badly the evidence."""
    views = facts.attempts.items
    if not views:
        note = make_note("No attempt has been made yet.")
        return make_section("attempts", "Attempts", note)
    axis = TimeAxis(_span(view, facts) for view in views)
    title = "Attempts over time (UTC): " + ", ".join(map(_name, views))
    bars = [_make_bar(view, facts, axis) for view in views]
    used = {bar.kind for bar in bars}
    legend = make_legend(kind for kind in _KINDS if kind[0] in used)
    older = facts.attempts.more
    earlier = [None, *views][: len(views)]
    rows = [_make_row(view, before) for view, before in zip(views, earlier, strict=True)]
    return make_section(
        "attempts",
        "Attempts",
        make_figure(
            "over time (UTC); grey: time in which nothing ran, shortened"
            if axis.breaks
            else "over time (UTC)",
            draw_timeline(title, bars, axis),
            legend,
        ),
        make_table("Attempts, oldest first", _COLUMNS, rows),
        say_more(older, "strandline attempts list"),
        *_list_evidence(facts),
    )


def find_span(view: AttemptView, now: float) -> Span:
    """From an attempt's start to its end, as far as that is known."""
    record = view.record
    end = record.ended if record.ended is not None else record.started + (view.seconds or 0.0)
    return Span(record.started, max(record.started, min(end, max(now, record.started))))


def _span(view: AttemptView, facts: RunFacts) -> Span:
    """The same; where nobody saw the end, until the last sample."""
    span = find_span(view, facts.time)
    samples = facts.samples.get(view.record.number)
    if view.record.ended is None and samples and samples.samples:
        return Span(span.begin, max(span.end, samples.begun + samples.samples[-1].seconds))
    return span


def _make_bar(view: AttemptView, facts: RunFacts, axis: TimeAxis) -> Bar:
    begin, end = _span(view, facts)
    label = _name(view)
    hint = f"attempt {label}: {spell_time(begin)} to {spell_time(end)} UTC"
    return Bar(axis.place(begin), axis.place(end), label, classify_end(view), hint)


def _name(view: AttemptView) -> str:
    return f"{view.record.number} {_name_end(view)}"


def _name_end(view: AttemptView) -> str:
    return view.record.cause.value if view.record.cause else view.state.value


def _make_row(view: AttemptView, before: AttemptView | None) -> tuple[Cell, ...]:
    record, outcome = view.record, view.record.outcome
    ended = before.record.ended if before else None
    after = "" if ended is None else spell_length(max(0.0, record.started - ended))
    counts = outcome.sources if outcome else None
    return (
        str(record.number),
        record.trigger.value,
        spell_time(record.started),
        after,
        spell_length(view.seconds),
        spell_count(view.finished),
        spell_count(counts.skipped) if counts else "",
        spell_count(counts.failed) if counts else "",
        element("span", _name_end(view), class_=f"badge {classify_end(view)}"),
        (outcome.message if outcome else "", "words"),
    )


def _list_evidence(facts: RunFacts) -> Iterator[Markup]:
    for view in facts.attempts.items:
        outcome = view.record.outcome
        if view.record.cause is None or outcome is None or not outcome.evidence:
            continue
        items = [
            element("li", element("b", each.cause.value), f" ({each.source}): {each.message}")
            for each in outcome.evidence[:EVIDENCE]
        ]
        summary = f"Why attempt {view.record.number} ended: {view.record.cause.value}"
        yield element(
            "details",
            element("summary", summary),
            element("ul", *items),
            say_more(max(0, len(outcome.evidence) - EVIDENCE), "strandline attempts show"),
        )
