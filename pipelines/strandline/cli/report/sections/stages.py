"""The stages: what each did over time, and what went through it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strandline.cli.report.axes import TimeAxis
from strandline.cli.report.charts import draw_rate
from strandline.cli.report.facts import LatestFacts, RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.rates import Measure, measure_finished, measure_stage, span_of, trace
from strandline.cli.report.tables import (
    Cell,
    describe_more,
    format_timestamp,
    make_figure,
    make_note,
    make_section,
    make_table,
)
from strandline.cli.views.format import format_count, format_rate
from strandline.cli.views.running.progress import describe_longest, format_oldest
from strandline.cli.views.running.snapshot import Snapshot

CHARTS = 24  # chains that have one
_DONE = ("stage", "#in", "#out", "#filtered", "#failed", "#rows in", "#rows out", "#seconds")
_NOW = (
    "stage",
    "#tasks a second",
    "#busy",
    "#waiting",
    "#running",
    "#oldest call",
    "#ready",
    "#lost",
)


def make_throughput(facts: RunFacts) -> Markup:
    """Return the throughput of the sources and of each chain of stages, over all attempts shown."""
    charts = list(_draw_charts(facts))
    if not charts:
        charts = [make_note("Nothing has been measured yet.")]
    content: list[Markup | None] = [element("div", *charts[: CHARTS + 1], class_="charts")]
    if facts.live is not None:
        content.append(_make_now(facts.live))
    if facts.latest is not None and facts.latest.stages:
        content += _make_done(facts.latest)
    more = describe_more(max(0, len(charts) - CHARTS - 1))
    return make_section("throughput", "Throughput", content[0], more, *content[1:])


def _draw_charts(facts: RunFacts) -> Iterator[Markup]:
    known = facts.samples
    if not any(samples.samples for samples in known.values()):
        return
    axis = TimeAxis(span_of(samples) for samples in known.values())
    slowest = facts.live.bottleneck if facts.live else None
    yield _draw(facts, axis, "sources finished", "Sources finished a second", measure_finished)
    for chain in _list_chains(facts):
        name = " → ".join(chain)
        mark = f" ({slowest} sets the pace)" if slowest in chain else ""
        entry, unit = _find_entry(facts, chain)
        title = f"{unit.capitalize()} a second into {entry}"
        yield _draw(facts, axis, f"{name}{mark}", title, measure_stage(entry, unit))


def _list_chains(facts: RunFacts) -> Iterator[tuple[str, ...]]:
    """Yield stages that ran in one worker: their tasks come and go together."""
    yield from facts.chains
    planned = {name for chain in facts.chains for name in chain}
    names = dict.fromkeys(name for samples in facts.samples.values() for name in samples.stages)
    # Chains of a pipeline that has changed since are not known any more.
    yield from ((name,) for name in names if name not in planned)


def _find_entry(facts: RunFacts, chain: Sequence[str]) -> tuple[str, str]:
    """Return the first stage of a chain that rows come to; where none does, the first, by tasks."""
    for name in chain:
        for samples in facts.samples.values():
            count = measure_stage(name, "rows")(samples)
            if count is not None and any(count(sample) for sample in samples.samples):
                return name, "rows"
    return chain[0], "tasks"


def _draw(facts: RunFacts, axis: TimeAxis, name: str, title: str, measure: Measure) -> Markup:
    stretches = list(trace(facts.samples, axis, measure))
    rates = [step.rate for stretch in stretches for step in stretch]
    peak = format_rate(max(rates, default=0.0))
    caption = element("span", element("b", name), element("small", f" up to {peak}"))
    return make_figure(
        caption, draw_rate(f"{title} over time (UTC), up to {peak}", stretches, axis, "/s")
    )


def _make_now(live: Snapshot) -> Markup:
    rows: list[tuple[Cell, ...]] = [
        (
            stage.name,
            f"{stage.rate:,.3g}",
            f"{stage.utilisation:.0%}",
            format_count(stage.waiting),
            format_count(stage.running),
            format_oldest(stage.pool),
            f"{stage.pool.ready} of {stage.pool.workers}",
            format_count(stage.pool.lost),
        )
        for stage in live.stages
    ]
    longest = describe_longest(live)
    note = make_note(f"{longest[:1].upper()}{longest[1:]}.") if longest else None
    return element("div", make_table("Stages now, over half a minute", _NOW, rows), note)


def _make_done(latest: LatestFacts) -> Iterator[Markup | None]:
    rows: list[tuple[Cell, ...]] = [
        (stage.name, *(_format_number(number) for number in stage.numbers.values()))
        for stage in latest.stages
    ]
    caption = (
        f"What went through, by attempt {latest.attempt} until {format_timestamp(latest.time)} UTC"
    )
    yield make_table(caption, _DONE, rows)
    for stage in latest.stages:
        if stage.counters.count:
            counted = [(name, format_count(number)) for name, number in stage.counters.items]
            yield element(
                "details",
                element("summary", f"Counters of {stage.name}"),
                make_table(f"Counters of {stage.name}", ("counter", "#number"), counted),
                describe_more(stage.counters.more),
            )


def _format_number(number: float | None) -> str:
    if number is None:
        return ""
    return format_count(number) if isinstance(number, int) else f"{number:,.1f}"
