"""Builds the section about throughput over time, for all sources and for each chain of stages.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from strandline.cli.report.axes import TimeAxis
from strandline.cli.report.charts import draw_rate
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.rates import Measure, measure_finished, measure_stage, span_of, trace
from strandline.cli.views.format import format_rate

CHARTS = 25  # maximum number of charts, including the chart of all sources

Chart = tuple[str, str, Markup]


def draw_charts(facts: RunFacts) -> Iterator[Chart]:
    """Yield name, peak rate, and chart of the sources, and of each chain of stages."""
    known = facts.samples
    if not any(samples.samples for samples in known.values()):
        return
    axis = TimeAxis(span_of(samples) for samples in known.values())
    slowest = facts.live.bottleneck if facts.live else None
    yield _draw(facts, axis, "sources finished", "Sources finished per second", measure_finished)
    for chain in _list_chains(facts):
        name = " → ".join(chain)
        mark = f" ({slowest} sets the pace)" if slowest in chain else ""
        entry, unit = _find_entry(facts, chain)
        title = f"{unit.capitalize()} per second into {entry}"
        yield _draw(facts, axis, f"{name}{mark}", title, measure_stage(entry, unit))


def _list_chains(facts: RunFacts) -> Iterator[tuple[str, ...]]:
    """Yield the chains of stages that shared a worker.

    The charts show the throughput of a chain.
    """
    yield from facts.chains
    planned = {name for chain in facts.chains for name in chain}
    names = dict.fromkeys(name for samples in facts.samples.values() for name in samples.stages)
    # Stages of earlier pipelines follow alone, because their chains are unknown.
    yield from ((name,) for name in names if name not in planned)


def _find_entry(facts: RunFacts, chain: Sequence[str]) -> tuple[str, str]:
    """Return a chain's first stage with counted rows, or else its first stage with tasks."""
    for name in chain:
        for samples in facts.samples.values():
            count = measure_stage(name, "rows")(samples)
            if count is not None and any(count(sample) for sample in samples.samples):
                return name, "rows"
    return chain[0], "tasks"


def _draw(facts: RunFacts, axis: TimeAxis, name: str, title: str, measure: Measure) -> Chart:
    stretches = list(trace(facts.samples, axis, measure))
    rates = [step.rate for stretch in stretches for step in stretch]
    peak = format_rate(max(rates, default=0.0))
    return name, peak, draw_rate(f"{title} over time (UTC), up to {peak}", stretches, axis, "/s")
