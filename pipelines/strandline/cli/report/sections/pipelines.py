"""Several pipelines on one page: what became of each, in the order in which they run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.sections.overview import name_state
from strandline.cli.report.tables import Cell, format_timestamp, make_table
from strandline.cli.views.format import format_count

_COLUMNS = ("pipeline", "state", "#finished", "#failed", "#quarantined", "#attempts", "last end")
_WELL = "finished"


def name_many(runs: Sequence[RunFacts]) -> str:
    """Return the title of a page of several pipelines."""
    return f"{len(runs)} pipelines: {', '.join(facts.pipeline for facts in runs)}"


def is_open(facts: RunFacts) -> bool:
    """Return whether a pipeline needs a look: it is not complete, or sources failed."""
    counts, (_, kind) = facts.count_sources(), name_state(facts)
    return kind != _WELL or counts.failed + counts.quarantined > 0


def make_summary(runs: Sequence[RunFacts], anchors: Sequence[str]) -> Markup:
    """Return the head of the page: a line for each pipeline.

    Args:
        anchors: of the pipelines, to be led to.
    """
    rows = [_make_row(facts, anchor) for facts, anchor in zip(runs, anchors, strict=True)]
    return element(
        "header",
        element("p", "Strandline", class_="brand"),
        element("h1", f"{len(runs)} pipelines"),
        element("p", f"as of {format_timestamp(runs[0].time)} UTC", class_="note"),
        make_table("Pipelines, in the order in which they run", _COLUMNS, rows),
    )


def _make_row(facts: RunFacts, anchor: str) -> tuple[Cell, ...]:
    counts, (state, kind) = facts.count_sources(), name_state(facts)
    record = facts.last.record if facts.last else None
    outcome = record.outcome if record else None
    return (
        element("a", facts.pipeline, href=f"#{anchor}"),
        element("span", state, class_=f"badge {kind}"),
        format_count(counts.finished - counts.unlisted),
        format_count(counts.failed),
        format_count(counts.quarantined),
        format_count(facts.attempts.count),
        outcome.message if outcome else "",
    )
