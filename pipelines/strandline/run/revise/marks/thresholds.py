"""Counts the rows that a filter's limits drop at several values, from existing measures.

The module is pure: it computes numbers from numbers. It must not depend on the storage of measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strandline.data.tables.rules import Rule

Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# By default, show values that would drop these shares of rows.
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_DIGITS = 3


class MeasuredRows(NamedTuple):
    """Rows that a filter has marked.

    Attributes:
        measures: measures of the rows, by name of the measure; NaN if a row lacks a measure.
        reasons: for each row, why the filter would drop it, or None if the row stays.
    """

    measures: Mapping[str, Numbers]
    reasons: Sequence[str | None]


class Threshold(NamedTuple):
    """The effect of a limit at a value.

    Attributes:
        at: the value.
        taken: number of rows beyond the limit.
        alone: number of rows beyond the limit that no other rule drops.
        together: number of rows that the filter drops. The other limits stay unchanged.
        is_current: whether the limit currently has this value.
    """

    at: float
    taken: int
    alone: int
    together: int
    is_current: bool


class RuleCounts(NamedTuple):
    """The effects of a rule at several values.

    Attributes:
        rule: the rule with its current limit.
        measured: number of rows that have the rule's measure.
        thresholds: the effect of each value, from the fewest to the most dropped rows.
    """

    rule: Rule
    measured: int
    thresholds: tuple[Threshold, ...]


class FilterCounts(NamedTuple):
    """The effects of a filter.

    Attributes:
        rows: number of the filter's input rows.
        dropped: number of rows dropped with the current limits.
        unlimited: number of rows dropped for reasons without a limit; no value would keep them.
        reasons: number of marked rows by their first reason, the most frequent first.
        rules: effects of the rules with a numeric parameter.
    """

    rows: int
    dropped: int
    unlimited: int
    reasons: Mapping[str, int]
    rules: tuple[RuleCounts, ...]


def count_rows(
    rules: Sequence[Rule], rows: MeasuredRows, values: Mapping[str, Sequence[float]]
) -> FilterCounts:
    """Count the rows that each rule drops at several values, alone and together with other rules.

    Args:
        rules: the rules in the filter's order.
        rows: the filter's input rows.
        values: values to try by parameter name, in addition to values chosen here.
    """
    size = len(rows.reasons)
    # Compare prefixes, because a reason may have a suffix, such as the name of a benchmark.
    begins = tuple(rule.reason for rule in rules)
    unlimited = np.array(
        [reason is not None and not reason.startswith(begins) for reason in rows.reasons], np.bool_
    )
    broken = {rule: _find_broken(rule, rows, rule.limit) for rule in rules}
    counts = []
    for rule in filter(_is_numeric, rules):
        siblings = [each for each in rules if each.parameter == rule.parameter]
        others = unlimited.copy()
        for each in rules:
            if each not in siblings:
                others |= broken[each]
        numbers = rows.measures.get(rule.measure, np.empty(0))
        present = numbers[~np.isnan(numbers)]
        shown = _choose_values(rule, present, values.get(rule.parameter, ()))
        thresholds = [_count(rule, siblings, rows, others, value) for value in shown]
        counts.append(RuleCounts(rule, len(present), tuple(thresholds)))
    dropped = unlimited.copy()
    for mask in broken.values():
        dropped |= mask
    reasons = Counter(filter(None, rows.reasons))
    ordered = dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    return FilterCounts(size, int(dropped.sum()), int(unlimited.sum()), ordered, tuple(counts))


def _is_numeric(rule: Rule) -> bool:
    return bool(rule.parameter)


def _count(
    rule: Rule, siblings: Sequence[Rule], rows: MeasuredRows, others: Mask, value: float
) -> Threshold:
    """Count the effect of a value on all rules that share the parameter."""
    own = _find_broken(rule, rows, value)
    together = others.copy()
    for each in siblings:
        together |= _find_broken(each, rows, value)
    return Threshold(
        value,
        int(own.sum()),
        int((own & ~others).sum()),
        int(together.sum()),
        value == rule.limit,
    )


def _find_broken(rule: Rule, rows: MeasuredRows, limit: float | None) -> Mask:
    numbers = rows.measures.get(rule.measure)
    if numbers is not None and rule.is_missing:
        return np.isnan(numbers)
    if numbers is None or limit is None:
        return np.zeros(len(rows.reasons), np.bool_)
    # A missing measure is NaN, and all comparisons with NaN are false.
    return numbers < limit if rule.is_least else numbers > limit


def _choose_values(rule: Rule, numbers: Numbers, wanted: Sequence[float]) -> list[float]:
    """Return values from the fewest to the most dropped rows, including the current limit."""
    chosen = {*wanted, *(() if rule.limit is None else (rule.limit,))}
    numbers = numbers[np.isfinite(numbers)]
    for share in _SHARES if numbers.size else ():
        # Choose existing measures instead of values interpolated between two measures.
        at = share if rule.is_least else 1 - share
        value = float(np.quantile(numbers, at, method="nearest"))
        chosen.add(round(value) if rule.is_count else float(f"{value:.{_DIGITS}g}"))
    return sorted(chosen, reverse=not rule.is_least)
