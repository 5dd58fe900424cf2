"""Builds the head of the page: text and style classes for an overview of a run.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from strandline.cli.report.charts import Part, draw_parts
from strandline.cli.report.facts import LatestFacts, RunFacts, SourceTotals
from strandline.cli.report.formats import format_timestamp
from strandline.cli.views.attempt import AttemptStanding, AttemptSummary
from strandline.cli.views.format import format_count, format_rate, format_seconds
from strandline_api.outcome.causes import Treatment


def draw_sources(parts: Sequence[Part]) -> Markup:
    """Return a chart of sources by state."""
    shown = [f"{format_count(part.number)} {part.label}" for part in parts if part.number]
    return draw_parts(f"Sources by state: {', '.join(shown) or 'none'}", parts)


def list_legend(parts: Sequence[Part]) -> list[tuple[str, str, str]]:
    """Return style class, name, and source count of each state."""
    return [(part.kind, part.label, format_count(part.number)) for part in parts]


def list_parts(counts: SourceTotals) -> list[Part]:
    """Return the states with source counts, in the order in which a source passes through them."""
    return [
        Part("finished by the last attempt", counts.finished_now, "finished"),
        Part("finished before", counts.finished_before, "skipped"),
        Part("in flight", counts.inflight, "inflight"),
        Part("interrupted, to be processed again", counts.interrupted, "disrupted"),
        Part("waiting", counts.waiting, "waiting"),
        Part("failed in the last attempt", counts.failed_now, "failed"),
        Part("failed before, not retried yet", counts.failed_before, "failed-before"),
        Part("quarantined", counts.quarantined, "quarantined"),
    ]


def classify_end(view: AttemptSummary) -> str:
    """Return the style class for bars and badges of an attempt."""
    cause = view.record.cause
    if cause is not None:
        is_outside = cause.treatment in {Treatment.DISRUPTION, Treatment.WAITED}
        return "disrupted" if is_outside else "failed"
    known = {AttemptStanding.COMPLETED: "finished", AttemptStanding.RUNNING: "inflight"}
    return known.get(view.state, "waiting")


def describe_latest(latest: LatestFacts) -> str:
    """Describe the publication that readers should use."""
    parts = [
        f"{latest.name} by attempt {latest.attempt}, published {format_timestamp(latest.time)} UTC"
    ]
    parts.append("at the attempt's end" if latest.is_final else "while the attempt ran")
    if latest.is_pinned:
        parts.append("chosen by hand (strandline latest --set)")
    return ", ".join(parts)


def name_state(facts: RunFacts) -> tuple[str, str]:
    """Return the state of the data set or of its last attempt, and the style class of the badge."""
    last = facts.last
    if last is None:
        return "not run yet", "waiting"
    cause = last.record.cause
    # A completed attempt does not prove that the data set is still complete: since then, commands
    # may have made sources unfinished, and files may have been deleted.
    if last.state is AttemptStanding.COMPLETED and cause is None and facts.list_gaps():
        return "incomplete", "waiting"
    return (cause.value if cause else last.state.value), classify_end(last)


def describe_end(facts: RunFacts) -> str | None:
    """Describe the pace of a running attempt, or the end of the last attempt."""
    last, live = facts.last, facts.live
    if live is not None:
        left = live.seconds_left
        words = [f"{format_rate(live.rate)} recently"]
        words += [f"about {format_seconds(left)} left"] if left else []
        words += [f"{live.bottleneck} sets the pace"] if live.bottleneck else []
        return ", ".join(words)
    if last is None or last.record.outcome is None:
        return None
    gaps = facts.list_gaps() if not last.record.outcome.exit_code else ()
    sentences = (last.record.outcome.message, *(f"not complete now: {gap}" for gap in gaps))
    return "; ".join(sentences)


def is_open(facts: RunFacts) -> bool:
    """Return whether a pipeline needs attention: an incomplete data set, or failed sources."""
    counts, (_, kind) = facts.count_sources(), name_state(facts)
    return kind != "finished" or counts.failed + counts.quarantined > 0
