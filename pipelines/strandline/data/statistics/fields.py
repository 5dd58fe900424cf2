"""Summarizes a field of a table: number of rows, number of nulls, and distribution of values.

Numbers are measured by value, texts by length in characters.
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
    """The kind of values in a field."""

    NUMBER = "number"
    TEXT = "text"
    EMPTY = "empty"  # no row has a value from which the kind could be derived


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """Summary of a field.

    Attributes:
        rows: number of all rows, including empty rows.
        nulls: number of rows without a value.
        not_finite: number of infinities and NaNs, which all other parts of the summary ignore.
        distinct: sketch of the distinct values; for texts, of the texts instead of their lengths.
    """

    rows: int
    nulls: int
    not_finite: int
    moments: Moments
    histogram: Histogram
    quantiles: Quantiles
    distinct: Distinct

    @classmethod
    def from_values(
        cls, values: Sequence[float | str | None], bins: Bins = GROWING
    ) -> FieldSummary:
        """Return the summary of values: either numbers and None, or texts and None."""
        given = [value for value in values if value is not None]
        # Count infinite values and NaNs separately, because they would make sums and bins useless.
        finite = [value for value in given if isinstance(value, str) or math.isfinite(value)]
        measures = [len(value) if isinstance(value, str) else value for value in finite]
        return cls(
            len(values),
            len(values) - len(given),
            len(given) - len(finite),
            Moments.from_numbers(measures),
            Histogram.from_numbers(measures, bins),
            Quantiles.from_numbers(measures),
            Distinct.from_values(finite),
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
        """Return the numbers to show as JSON, without the histogram."""
        return {
            "rows": self.rows,
            "nulls": self.nulls,
            "not_finite": self.not_finite,
            **self.moments.describe(),
            **self.quantiles.describe(),
            "distinct": round(self.distinct.estimate()),
        }

    def dump(self) -> list[Any]:
        """Return a plain list for `parse`."""
        parts = (self.moments, self.histogram, self.quantiles, self.distinct)
        return [self.rows, self.nulls, self.not_finite, *(part.dump() for part in parts)]

    @classmethod
    def parse(cls, dumped: list[Any]) -> FieldSummary:
        """Return the summary from the result of `dump`."""
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
