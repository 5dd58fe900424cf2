"""All that is told of one field of a table: how many rows, how many empty, how the rest is spread.

Numbers are measured by their value, texts by their length in characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strandline.data.statistics.histogram import GROWING, Bins, Histogram
from strandline.data.statistics.moments import Moments
from strandline.data.statistics.sketches import Distinct, Quantiles


class FieldKind(StrEnum):
    """What a field holds."""

    NUMBER = "number"
    TEXT = "text"
    EMPTY = "empty"  # no row has a value that would show a type


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The summary of one field.

    Attributes:
        rows: all rows, empty ones too.
        nulls: rows without a value.
        not_finite: infinite numbers and those that are none; in no other part of the summary.
        distinct: of the values themselves, also of texts.
    """

    rows: int
    nulls: int
    not_finite: int
    moments: Moments
    histogram: Histogram
    quantiles: Quantiles
    distinct: Distinct

    @classmethod
    def of(cls, values: Sequence[float | str | None], bins: Bins = GROWING) -> FieldSummary:
        """Return the summary of values that are all numbers or all texts, or None."""
        given = [value for value in values if value is not None]
        finite = [value for value in given if isinstance(value, str) or math.isfinite(value)]
        measures = [len(value) if isinstance(value, str) else value for value in finite]
        return cls(
            len(values),
            len(values) - len(given),
            len(given) - len(finite),
            Moments.of(measures),
            Histogram.of(measures, bins),
            Quantiles.of(measures),
            Distinct.of(finite),
        )

    def __add__(self, other: FieldSummary) -> FieldSummary:
        return FieldSummary(
            self.rows + other.rows,
            self.nulls + other.nulls,
            self.not_finite + other.not_finite,
            self.moments + other.moments,
            self.histogram + other.histogram,
            self.quantiles + other.quantiles,
            self.distinct + other.distinct,
        )

    def describe(self) -> dict[str, Any]:
        """Return what people read, as JSON has it; the histogram apart."""
        return {
            "rows": self.rows,
            "nulls": self.nulls,
            "not_finite": self.not_finite,
            **self.moments.describe(),
            **self.quantiles.describe(),
            "distinct": round(self.distinct.estimate()),
        }

    def dump(self) -> list[Any]:
        """Dump it as a plain list; `parse` reads it."""
        parts = (self.moments, self.histogram, self.quantiles, self.distinct)
        return [self.rows, self.nulls, self.not_finite, *(part.dump() for part in parts)]

    @classmethod
    def parse(cls, dumped: list[Any]) -> FieldSummary:
        """Read what `dump` gave."""
        rows, nulls, not_finite, moments, histogram, quantiles, distinct = dumped
        return cls(
            rows,
            nulls,
            not_finite,
            Moments.parse(moments),
            Histogram.parse(histogram),
            Quantiles.parse(quantiles),
            Distinct.parse(distinct),
        )
