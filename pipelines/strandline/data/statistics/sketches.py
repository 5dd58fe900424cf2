"""Sketches: approximate summaries of many values, in little memory, with a known error bound.

The library datasketches computes the sketches. It is loaded on first use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

RANKS = {"p01": 0.01, "p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}

_CENTROIDS = 200
# Results in a standard error of about 0.69 / sqrt(2**11), which is 1.5 %.
_LOG_ROWS = 11
# Whole numbers from this limit on do not fit into the library's 64-bit integers.
_INTEGERS = 2.0**63
# Larger numbers are clipped, because the sketch sums numbers, and the sum would become infinite.
_GREATEST = 1e290


class Quantiles:
    """Quantiles of numbers, from a t-digest of at most 5 kB.

    The quantiles are exact for up to 100 numbers; for more, the rank error is less than 2
    percentage points. Numbers are clipped to the range from -1e290 to 1e290. Joining the same parts
    in the same order results in the same bytes.
    """

    def __init__(self, sketch: Any = None) -> None:  # noqa: ANN401 - the library has no types
        self._sketch = _load().tdigest_double(_CENTROIDS) if sketch is None else sketch

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> Quantiles:
        """Return the sketch of finite numbers."""
        made = cls()
        if numbers:
            numpy = _load("numpy")
            array = numpy.asarray(numbers, "float64")
            made._sketch.update(numpy.clip(array, -_GREATEST, _GREATEST))
        return made

    def __add__(self, other: Quantiles) -> Quantiles:
        joined = Quantiles()
        for each in (self, other):
            joined._sketch.merge(each._sketch)
        return joined

    @property
    def count(self) -> int:
        """Return the exact number of added numbers."""
        return int(self._sketch.get_total_weight())

    def describe(self) -> dict[str, float | None]:
        """Return the quantiles at `RANKS`. All quantiles are None if there are no numbers."""
        if not self.count:
            return dict.fromkeys(RANKS)
        return {name: float(self._sketch.get_quantile(rank)) for name, rank in RANKS.items()}

    def dump(self) -> bytes:
        """Return bytes for `parse`."""
        return bytes(self._sketch.serialize())

    @classmethod
    def parse(cls, dumped: bytes) -> Quantiles:
        """Return the quantiles from the result of `dump`."""
        return cls(_load().tdigest_double.deserialize(dumped))


class Distinct:
    """Number of distinct values, from a CPC sketch of at most 2 kB.

    The standard error is 1.5 %. Order and grouping have no effect: equal sets of values result in
    equal bytes.
    """

    def __init__(self, sketch: Any = None) -> None:  # noqa: ANN401 - the library has no types
        self._sketch = _load().cpc_sketch(_LOG_ROWS) if sketch is None else sketch

    @classmethod
    def from_values(cls, values: Iterable[str | float]) -> Distinct:
        """Return the sketch of values. 1 and 1.0 count as the same value."""
        sketch = _load().cpc_sketch(_LOG_ROWS)
        for value in values:
            is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _INTEGERS
            # Replace the empty string, which the library ignores, with NaN, which is never a value.
            sketch.update(math.nan if value == "" else int(value) if is_whole else value)
        return _join(sketch)

    def __add__(self, other: Distinct) -> Distinct:
        return _join(self._sketch, other._sketch)

    def estimate(self) -> float:
        """Return the approximate number of distinct values."""
        return float(self._sketch.get_estimate())

    def dump(self) -> bytes:
        """Return bytes for `parse`."""
        return bytes(self._sketch.serialize())

    @classmethod
    def parse(cls, dumped: bytes) -> Distinct:
        """Return the sketch from the result of `dump`."""
        return cls(_load().cpc_sketch.deserialize(dumped))


def _join(*sketches: Any) -> Distinct:  # noqa: ANN401 - the library has no types
    # Use a union even for a single sketch: otherwise estimates depend on the order of values.
    union = _load().cpc_union(_LOG_ROWS)
    for sketch in sketches:
        union.update(sketch)
    return Distinct(union.get_result())


def _load(module: str = "datasketches") -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"datasketches is not installed ({error}); install strandline[statistics]"
        raise ImportError(msg) from error
