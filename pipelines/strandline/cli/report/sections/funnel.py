"""The funnel: rows of finished sources, stage by stage. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.cli.report.charts import draw_share
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.tables import Cell, make_note, make_section, make_table
from strandline.cli.views.format import describe_requests, format_amount, format_count
from strandline.ledger.checks.counts import FinishedCounts, StageTotals
from strandline.run.history.funnel import find_sweeping_rules

REASONS = 12  # most of one stage
_COLUMNS = ("stage", "#rows in", "#rows out", "kept", "#dead letters", "rows dropped, and why")


def make_funnel(facts: RunFacts) -> Markup:
    """Return what was kept and dropped by each stage, and why."""
    notes = list(map(make_note, describe_coverage(facts.counts)))
    if not facts.funnel:
        notes = notes or [make_note("Nothing has been counted yet.")]
        return make_section("funnel", "Kept and dropped", *notes, *_list_requests(facts))
    largest = max(max(stage.rows_in, stage.rows_out) for stage in facts.funnel)
    counts = facts.count_sources()
    listed = "" if counts.listed is None else f"{format_count(counts.listed)} listed, "
    sources = (
        f"Sources: {listed}{format_count(counts.finished)} finished, "
        f"{format_count(counts.failed)} failed, {format_count(counts.quarantined)} quarantined."
    )
    rows = [_make_row(stage, largest) for stage in facts.funnel]
    return make_section(
        "funnel",
        "Kept and dropped",
        element("p", sources),
        make_table("Rows of finished sources by stage", _COLUMNS, rows),
        *_warn(facts),
        *notes,
        *_list_requests(facts),
    )


def describe_coverage(counts: FinishedCounts) -> Iterator[str]:
    """Yield a sentence about finished sources that are not among the rows by stage."""
    if counts.uncounted:
        of = format_amount(counts.counted + counts.uncounted, "source")
        yield (
            f"Rows of {format_count(counts.uncounted)} of {of} are not in this table: an older "
            "release finished them without counts."
        )


def _warn(facts: RunFacts) -> list[Markup]:
    """Return a paragraph for each rule that took nearly all that there was."""
    rules = find_sweeping_rules(facts.funnel)
    return [element("p", f"Look here: {rule}. Is it meant for these rows?") for rule in rules]


def _list_requests(facts: RunFacts) -> list[Markup]:
    """Return a paragraph for each stage that has asked a model."""
    return [
        element("p", f"{name}, over all attempts: {describe_requests(each)}.")
        for name, each in facts.requests.items()
    ]


def _make_row(stage: StageTotals, largest: int) -> tuple[Cell, ...]:
    kept = _describe_share(stage.share_kept)
    chart = draw_share(stage.rows_out / largest if largest else 0.0, f"{stage.name}: {kept} kept")
    return (
        stage.name,
        format_count(stage.rows_in),
        format_count(stage.rows_out),
        element("span", kept, chart),
        format_count(stage.dead),
        (", ".join(describe_reasons(stage, REASONS)), "words"),
    )


def _describe_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.1%}" if share <= 1 else f"×{share:,.1f}"  # a stage may make many of one


def describe_reasons(stage: StageTotals, most: int) -> Iterator[str]:
    """Yield the most frequent reasons of a stage with their numbers, and how many more it has."""
    yield from (f"{format_count(number)} {name}" for name, number in stage.reasons[:most])
    more = len(stage.reasons) - most
    if more > 0:
        yield f"and {format_amount(more, 'more reason')}"
