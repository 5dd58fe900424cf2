"""Kinds of summaries, each with possible values and a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from strandline.data.statistics.fields import FieldSummary
from strandline.data.statistics.histogram import EvenBins, Histogram
from strandline.data.statistics.moments import Moments
from strandline.data.statistics.sketches import Distinct, Quantiles
from strandline.data.statistics.volume import TextVolume

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = FLOATS | st.integers(-(2**63), 2**64 - 1)
WORDS = st.sampled_from(["a", "b", "", "Möwe", "潮", "x" * 500])
ANY_FLOATS = st.floats() | st.none()
EVEN = EvenBins(-10.0, 1000.0, 7)


class SummaryKind(NamedTuple):
    """A kind of summary: how to create it from values, and the parts that must be equal."""

    of: Callable[[list[Any]], Any]
    values: st.SearchStrategy[Any]
    view: Callable[[Any], Any] = lambda summary: summary.dump()


def count_both(lengths: list[int]) -> TextVolume:
    return TextVolume.from_counts(lengths, [length // 5 for length in lengths])


def describe(summary: FieldSummary) -> Any:
    """Return everything but the order in which a sketch stores a few values."""
    return summary.describe(), summary.histogram, summary.moments, summary.distinct.dump()


KINDS = {
    "moments": SummaryKind(Moments.from_numbers, NUMBERS),
    "growing histogram": SummaryKind(Histogram.from_numbers, NUMBERS),
    "even histogram": SummaryKind(lambda values: Histogram.from_numbers(values, EVEN), NUMBERS),
    "volume": SummaryKind(count_both, st.integers(0, 10**6)),
    "distinct": SummaryKind(Distinct.from_values, NUMBERS | WORDS),
    "quantiles": SummaryKind(Quantiles.from_numbers, FLOATS, Quantiles.describe),
    "numbers": SummaryKind(FieldSummary.from_values, ANY_FLOATS, describe),
    "texts": SummaryKind(FieldSummary.from_values, WORDS | st.none(), describe),
}
