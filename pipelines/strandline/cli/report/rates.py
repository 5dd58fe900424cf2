"""Computes rates over time from an attempt's samples.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from strandline.cli.report.axes import Span, TimeAxis
from strandline.cli.report.charts import RateStep
from strandline.run.insight.samples import Sample, Samples, StagePoint, thin

STEPS = 300  # points of a chart, divided among attempts by duration
Measure = Callable[[Samples], Callable[[Sample], float] | None]


def span_of(samples: Samples) -> Span:
    """Return the time from an attempt's start to its last sample."""
    last = samples.samples[-1].seconds if samples.samples else 0.0
    return Span(samples.begun, samples.begun + last)


def measure_finished(_samples: Samples) -> Callable[[Sample], float]:
    """Return a function that reads the number of finished sources from a sample."""
    return lambda sample: sample.finished


def measure_stage(name: str, unit: str = "tasks") -> Measure:
    """Return a function that reads the number of a stage's tasks or `rows` from a sample."""

    def measure(samples: Samples) -> Callable[[Sample], float] | None:
        if name not in samples.stages:
            return None
        index = samples.stages.index(name)
        return lambda sample: float(getattr(_at(sample, index), unit))

    return measure


def trace(
    attempts: Mapping[int, Samples], axis: TimeAxis, measure: Measure
) -> Iterator[list[RateStep]]:
    """Yield the work per second of each attempt, as steps along the axis."""
    for samples in attempts.values():
        count = measure(samples)
        if count is None:
            continue
        span = span_of(samples)
        room = axis.find_position(span.end) - axis.find_position(span.begin)
        kept = thin(samples.samples, max(2, round(STEPS * room)))
        points = [(0.0, 0.0), *((sample.seconds, count(sample)) for sample in kept)]
        stretch = [
            RateStep(
                axis.find_position(samples.begun + begin),
                axis.find_position(samples.begun + end),
                max(0.0, done - before) / (end - begin),
            )
            for (begin, before), (end, done) in pairwise(points)
            if end > begin
        ]
        if stretch:
            yield stretch


def _at(sample: Sample, index: int) -> StagePoint:
    return sample.stages[index] if index < len(sample.stages) else StagePoint(0, 0)
