"""The attempts: when each ran, how it ended, and what was seen of that. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from strandline.cli.report.axes import Span, TimeAxis
from strandline.cli.report.charts import Bar, draw_timeline
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.sections.overview import classify_end
from strandline.cli.report.tables import (
    Cell,
    describe_more,
    format_duration,
    format_hours,
    format_timestamp,
    make_figure,
    make_legend,
    make_note,
    make_section,
    make_table,
)
from strandline.cli.views.attempt import AttemptSummary, describe_all_lost
from strandline.cli.views.format import format_count
from strandline.run.history.records import Witness

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
    "#core hours",
    "#lost",
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
    """Return a timeline of the attempts, a table, and for each that ended badly the evidence."""
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
    rows = [_make_row(view, before, facts) for view, before in zip(views, earlier, strict=True)]
    return make_section(
        "attempts",
        "Attempts",
        make_figure(
            "over time (UTC), shortened where it is grey: nothing ran there"
            if axis.breaks
            else "over time (UTC)",
            draw_timeline(title, bars, axis),
            legend,
        ),
        make_table("Attempts, oldest first", _COLUMNS, rows),
        _describe_cost(facts),
        _describe_lost(facts),
        describe_more(older, facts.name_command("attempts", "list")),
        *_list_evidence(facts),
    )


def _describe_cost(facts: RunFacts) -> Markup | None:
    """Describe what all attempts have cost."""
    cost = facts.count_cost()
    if not cost.used:
        return None
    lost = f", of which about {format_hours(cost.lost)} went into sources that are done again"
    return make_note(
        f"{format_hours(cost.used)} core hours in the stages' own code, over all attempts"
        f"{lost if cost.lost else ''}."
    )


def _describe_lost(facts: RunFacts) -> Markup | None:
    """Describe what losses of workers and nodes have cost, as far as drivers have told."""
    words = describe_all_lost(facts.attempts.items)
    return make_note(f"{words[0].upper()}{words[1:]}.") if words else None


def find_span(view: AttemptSummary, now: float) -> Span:
    """Return the time from an attempt's start to its end, as far as that is known."""
    record = view.record
    end = record.ended if record.ended is not None else record.started + (view.seconds or 0.0)
    return Span(record.started, max(record.started, min(end, max(now, record.started))))


def _span(view: AttemptSummary, facts: RunFacts) -> Span:
    """Return the same; where the end was not seen, until the last sign of life."""
    span = find_span(view, facts.time)
    samples = facts.samples.get(view.record.number)
    if samples is None or not samples.samples:
        return span
    sign = max(span.begin, samples.begun + samples.samples[-1].seconds)
    if view.record.ended is None:
        return Span(span.begin, max(span.end, sign))
    if view.record.witness is Witness.SUCCESSOR:  # older releases wrote their own beginning there
        return Span(span.begin, min(span.end, sign))
    return span


def _make_bar(view: AttemptSummary, facts: RunFacts, axis: TimeAxis) -> Bar:
    begin, end = _span(view, facts)
    label = _name(view)
    hint = f"attempt {label}: {format_timestamp(begin)} to {format_timestamp(end)} UTC"
    return Bar(axis.find_position(begin), axis.find_position(end), label, classify_end(view), hint)


def _name(view: AttemptSummary) -> str:
    return f"{view.record.number} {_name_end(view)}"


def _name_end(view: AttemptSummary) -> str:
    return view.record.cause.value if view.record.cause else view.state.value


def _make_row(
    view: AttemptSummary, before: AttemptSummary | None, facts: RunFacts
) -> tuple[Cell, ...]:
    record, outcome = view.record, view.record.outcome
    begin, end = _span(view, facts)
    after = "" if before is None else format_duration(max(0.0, begin - _span(before, facts).end))
    counts, cost = facts.count_attempt(view), facts.costs.get(record.number)
    return (
        str(record.number),
        record.trigger.value,
        format_timestamp(record.started),
        after,
        format_duration(end - begin if end > begin else view.seconds),
        format_count(counts.finished),
        _format_known(counts.skipped),
        _format_known(counts.failed),
        format_hours(cost.used) if cost else "",
        format_hours(cost.lost) if cost and cost.lost else "",
        element("span", _name_end(view), class_=f"badge {classify_end(view)}"),
        (outcome.message if outcome else "", "words"),
    )


def _format_known(number: int | None) -> str:
    return "" if number is None else format_count(number)


def _name_command(view: AttemptSummary, facts: RunFacts) -> str:
    words = ("strandline", "attempts", "show", *facts.file, str(view.record.number))
    return shlex.join([*words, *facts.volume])


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
            describe_more(max(0, len(outcome.evidence) - EVIDENCE)),
            make_note("All of it: ", element("code", _name_command(view, facts))),
        )
