"""How many rows a filter's limits take at several values, by measures that were taken before.

Pure: numbers in, numbers out. It must not know where the measures lie.
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

# Shares of rows that the values take which are shown without being asked for.
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_DIGITS = 3


class MeasuredRows(NamedTuple):
    """Rows as a filter has marked them.

    Attributes:
        measures: of each row, by the measure's name; NaN where it has none.
        reasons: for which each would be dropped; None where it stays.
    """

    measures: Mapping[str, Numbers]
    reasons: Sequence[str | None]


class Threshold(NamedTuple):
    """What a limit of one value does.

    Attributes:
        at: the value.
        taken: rows that are beyond it.
        alone: those of them that nothing else takes, as it is now.
        together: rows that the filter drops, with all else as it is now.
        is_current: the limit has this value.
    """

    at: float
    taken: int
    alone: int
    together: int
    is_current: bool


class RuleCounts(NamedTuple):
    """What a rule does.

    Attributes:
        rule: with the limit that it has now.
        measured: rows that have its measure.
        thresholds: from the one that takes the fewest rows to the one that takes the most.
    """

    rule: Rule
    measured: int
    thresholds: tuple[Threshold, ...]


class FilterCounts(NamedTuple):
    """What a filter does.

    Attributes:
        rows: that it has looked at.
        dropped: with the limits that it has now.
        unlimited: those of them that no limit has to do with, so that no value keeps them.
        reasons: why rows were dropped as they were marked, each under the first, most rows first.
        rules: those with a parameter that is a number.
    """

    rows: int
    dropped: int
    unlimited: int
    reasons: Mapping[str, int]
    rules: tuple[RuleCounts, ...]


def count_rows(
    rules: Sequence[Rule], rows: MeasuredRows, values: Mapping[str, Sequence[float]]
) -> FilterCounts:
    """Count what each rule takes by itself, and the filter with it.

    Args:
        rules: in the order in which the filter asks.
        rows: what it has looked at.
        values: of parameters by name, which are looked at beside those that are chosen here.
    """
    size = len(rows.reasons)
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
    """Count what a value does, for all rules that its parameter is the limit of."""
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
    # What has no measure is NaN, for which no comparison holds.
    return numbers < limit if rule.is_least else numbers > limit


def _choose_values(rule: Rule, numbers: Numbers, wanted: Sequence[float]) -> list[float]:
    """Return values from the one that takes the fewest rows, the present limit among them."""
    chosen = {*wanted, *(() if rule.limit is None else (rule.limit,))}
    numbers = numbers[np.isfinite(numbers)]
    for share in _SHARES if numbers.size else ():
        # Of measures, not of what lies between two of them.
        at = share if rule.is_least else 1 - share
        value = float(np.quantile(numbers, at, method="nearest"))
        chosen.add(round(value) if rule.is_count else float(f"{value:.{_DIGITS}g}"))
    return sorted(chosen, reverse=not rule.is_least)
