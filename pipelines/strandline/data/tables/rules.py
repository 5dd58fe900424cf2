"""Rules of filters: a measure of a row, a limit, and why rows beyond it are dropped.

With a rule as data the same limit can be tried out on measures that were taken before. Pure; it
must not know what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

Measured = tuple[str, float | None]


class Rule(NamedTuple):
    """A limit of a measure.

    Attributes:
        reason: why rows beyond it are dropped, or what all its reasons begin with.
        measure: its name.
        parameter: which sets the limit, as a file has it; empty where none is a number.
        limit: None: the rule is off.
        is_least: rows below are dropped; else those above.
        is_count: the measure is a whole number.
        is_column: the measure is a column without `mark` too, of this name.
        is_missing: rows without the measure are dropped, and no others; there is no limit.
    """

    reason: str
    measure: str
    parameter: str
    limit: float | None
    is_least: bool = False
    is_count: bool = False
    is_column: bool = False
    is_missing: bool = False

    def breaks(self, value: float | None) -> bool:
        """Return whether a row with this measure is dropped."""
        if self.is_missing:
            return value is None or math.isnan(value)
        if value is None or self.limit is None:
            return False
        return value < self.limit if self.is_least else value > self.limit


class RowVerdict(NamedTuple):
    """What rules make of a row.

    Attributes:
        reason: of the first that it breaks; None where it breaks none.
        measures: all of them by name, where they were asked for.
    """

    reason: str | None
    measures: Mapping[str, float | None] = {}


class RuleSet:
    """Rules in the order in which they are asked; those of one measure follow each other.

    Args:
        rules: as a filter lists them.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_measure: dict[str, list[Rule]] = {}
        for rule in rules:
            self._by_measure.setdefault(rule.measure, []).append(rule)

    def find_reason(self, measures: Iterable[Measured]) -> str | None:
        """Return the first reason; what comes behind it is not measured."""
        return next(self._find_reasons(measures), None)

    def judge(self, measures: Iterable[Measured], counters: dict[str, int]) -> RowVerdict:
        """Return the first reason and all measures.

        Args:
            counters: of the filter. What is counted behind the first reason is taken back, so that
                they are the same as where nothing was measured any more.
        """
        values: dict[str, float | None] = {}
        reasons = self._find_reasons(_note(measures, values))
        reason = next(reasons, None)
        counted = dict(counters)
        for _ in reasons:
            pass
        if reason is not None:
            counters.clear()
            counters.update(counted)
        return RowVerdict(reason, values)

    def _find_reasons(self, measures: Iterable[Measured]) -> Iterator[str]:
        for name, value in measures:
            for rule in self._by_measure[name]:
                if rule.breaks(value):
                    yield rule.reason


def list_measures(rules: Iterable[Rule]) -> Sequence[Rule]:
    """List a rule for each measure that only `mark` makes a column of, in their order."""
    return tuple({rule.measure: rule for rule in rules if not rule.is_column}.values())


def _note(measures: Iterable[Measured], values: dict[str, float | None]) -> Iterator[Measured]:
    for name, value in measures:
        values[name] = value
        yield name, value
