"""Rules of filters: a measure of a row, a limit, and a reason to drop rows beyond the limit.

A rule is data, so other limits can be tried on recorded measures. This module has no side effects,
and must not depend on the meaning of measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

Measured = tuple[str, float | None]


class Rule(NamedTuple):
    """A limit for a measure.

    Attributes:
        reason: reason for dropping rows beyond the limit, or the prefix of all reasons of the rule.
        measure: name of the measure.
        parameter: name of the parameter that sets the limit, as written in manifests; empty if no
            number sets the limit.
        limit: the limit, or None if the rule is off.
        is_least: True to drop rows below the limit, False to drop rows above it.
        is_count: True if the measure is an integer.
        is_column: True if the measure is in a column of this name even without `mark`.
        is_missing: True to drop exactly the rows without the measure. Then `limit` is not used.
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
        """Return True if the rule drops a row with this measure."""
        if self.is_missing:
            return value is None or math.isnan(value)
        if value is None or self.limit is None:
            return False
        return value < self.limit if self.is_least else value > self.limit


class RowVerdict(NamedTuple):
    """The decision about a row.

    Attributes:
        reason: reason of the first broken rule, or None to keep the row.
        measures: all measures by name, if requested.
    """

    reason: str | None
    measures: Mapping[str, float | None] = {}


class RuleSet:
    """Rules, grouped by measure, in the order in which they are checked.

    Args:
        rules: rules in the order of the filter.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_measure: dict[str, list[Rule]] = {}
        for rule in rules:
            self._by_measure.setdefault(rule.measure, []).append(rule)

    def find_reason(self, measures: Iterable[Measured]) -> str | None:
        """Return the first reason, or None if no rule is broken.

        Later measures are not computed.
        """
        return next(self._find_reasons(measures), None)

    def judge(self, measures: Iterable[Measured], counters: dict[str, int]) -> RowVerdict:
        """Return the first reason and all measures.

        Args:
            counters: counters of the filter. Increments after the first reason are undone, so that
                the
                counters equal those of `find_reason`.
        """
        values: dict[str, float | None] = {}
        reasons = self._find_reasons(_note(measures, values))
        reason = next(reasons, None)
        counted = dict(counters)
        # Exhaust the generator, which computes and records the remaining measures.
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
    """Return a rule for each measure that only `mark` writes to a column, in order."""
    return tuple({rule.measure: rule for rule in rules if not rule.is_column}.values())


def _note(measures: Iterable[Measured], values: dict[str, float | None]) -> Iterator[Measured]:
    for name, value in measures:
        values[name] = value
        yield name, value
