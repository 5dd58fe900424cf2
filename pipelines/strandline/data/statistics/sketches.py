"""Answers about many values from little memory, near the truth by a known bound.

The sketches are those of the library datasketches, which is loaded when the first one is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

RANKS = {"p01": 0.01, "p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}

_CENTROIDS = 200
_LOG_ROWS = 11
_INTEGERS = 2.0**63
# The sketch adds numbers up, so of greater ones it would make infinity.
_GREATEST = 1e290


class Quantiles:
    """Which number stands at a share of all, by a t-digest of at most 5 kB.

    Of up to 100 numbers it is exact; of many the share is off by less than 2 percentage points.
    Numbers beyond 1e290 count as 1e290, and so below zero.
    The same parts joined in the same order give the same bytes.
    """

    def __init__(self, sketch: Any = None) -> None:  # noqa: ANN401 - the library has no types
        self._sketch = _load().tdigest_double(_CENTROIDS) if sketch is None else sketch

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Quantiles:
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
        """Return how many numbers there were; this is exact."""
        return int(self._sketch.get_total_weight())

    def describe(self) -> dict[str, float | None]:
        """Describe the numbers at the shares of `RANKS`; None where there is no number."""
        if not self.count:
            return dict.fromkeys(RANKS)
        return {name: float(self._sketch.get_quantile(rank)) for name, rank in RANKS.items()}

    def dump(self) -> bytes:
        """Dump it as bytes; `parse` reads it."""
        return bytes(self._sketch.serialize())

    @classmethod
    def parse(cls, dumped: bytes) -> Quantiles:
        """Read what `dump` gave."""
        return cls(_load().tdigest_double.deserialize(dumped))


class Distinct:
    """How many different values there are, by a CPC sketch of at most 2 kB.

    The answer is off by 1.5 % (one standard deviation). Order and grouping don't matter: equal
    sets of values give equal bytes.
    """

    def __init__(self, sketch: Any = None) -> None:  # noqa: ANN401 - the library has no types
        self._sketch = _load().cpc_sketch(_LOG_ROWS) if sketch is None else sketch

    @classmethod
    def of(cls, values: Iterable[str | float]) -> Distinct:
        """Return the sketch of some values; 1 and 1.0 are one."""
        sketch = _load().cpc_sketch(_LOG_ROWS)
        for value in values:
            is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _INTEGERS
            # the library passes over the empty text; no value is NaN, so that stands for it
            sketch.update(math.nan if value == "" else int(value) if is_whole else value)
        return _join(sketch)

    def __add__(self, other: Distinct) -> Distinct:
        return _join(self._sketch, other._sketch)

    def estimate(self) -> float:
        """Return how many there are, about."""
        return float(self._sketch.get_estimate())

    def dump(self) -> bytes:
        """Dump it as bytes; `parse` reads it."""
        return bytes(self._sketch.serialize())

    @classmethod
    def parse(cls, dumped: bytes) -> Distinct:
        """Read what `dump` gave."""
        return cls(_load().cpc_sketch.deserialize(dumped))


def _join(*sketches: Any) -> Distinct:  # noqa: ANN401 - the library has no types
    # Even a single sketch: one that was not joined answers by the order of its values.
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
