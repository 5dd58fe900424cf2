"""The funnel: what became of sources and rows, stage by stage, over all attempts. Pure."""

from __future__ import annotations

from strandline.cli.report.charts import draw_share
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.tables import Cell, make_note, make_section, make_table
from strandline.cli.views.format import describe_requests, format_amount, format_count
from strandline.run.history.funnel import RETELLING, StageFunnel, find_sweeping_rules
from strandline.statistics.request_figures import read_figures

REASONS = 12  # most of one stage
_COLUMNS = (
    "stage",
    "#rows in",
    "#rows out",
    "kept",
    "#tasks in",
    "#dropped",
    "#failed",
    "rows dropped, and why",
)


def make_funnel(facts: RunFacts) -> Markup:
    """Return what was kept and dropped by each stage, and why."""
    if not facts.funnel:
        note = make_note("Nothing has been counted yet.")
        return make_section("funnel", "Kept and dropped", note)
    largest = max(max(stage.counts.rows_in, stage.counts.rows_out) for stage in facts.funnel)
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
        make_table("Rows and tasks by stage, over all attempts", _COLUMNS, rows),
        *_warn(facts),
        *_list_requests(facts),
        make_note(_describe(facts)),
    )


def _warn(facts: RunFacts) -> list[Markup]:
    """Return a paragraph for each rule that took nearly all that there was."""
    rules = find_sweeping_rules({stage.name: stage.counts for stage in facts.funnel})
    return [element("p", f"Look here: {rule}. Is it meant for these rows?") for rule in rules]


def _list_requests(facts: RunFacts) -> list[Markup]:
    """Return a paragraph for each stage that has asked a model."""
    figures = {stage.name: read_figures(stage.counts.counters) for stage in facts.funnel}
    return [
        element("p", f"{name}: {describe_requests(each)}.")
        for name, each in figures.items()
        if each.has_any
    ]


def _describe(facts: RunFacts) -> str:
    text = f"Counted over {format_amount(len(facts.costs), 'attempt')}."
    return f"{text} {RETELLING}" if len(facts.costs) > 1 else text


def _make_row(stage: StageFunnel, largest: int) -> tuple[Cell, ...]:
    counts = stage.counts
    kept = _describe_share(stage.share_kept)
    chart = draw_share(counts.rows_out / largest if largest else 0.0, f"{stage.name}: {kept} kept")
    return (
        stage.name,
        format_count(counts.rows_in),
        format_count(counts.rows_out),
        element("span", kept, chart),
        format_count(counts.tasks_in),
        format_count(counts.filtered),
        format_count(counts.failed),
        (_describe_reasons(stage), "words"),
    )


def _describe_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.1%}" if share <= 1 else f"×{share:,.1f}"  # a stage may make many of one


def _describe_reasons(stage: StageFunnel) -> str:
    words = [f"{format_count(number)} {name}" for name, number in stage.dropped[:REASONS]]
    more = len(stage.dropped) - REASONS
    return ", ".join([*words, f"and {more} more reasons"] if more > 0 else words)
