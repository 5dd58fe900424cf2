"""Computes the work of attempts: rows per stage, core-seconds, and the cost of a kill.

The numbers cover all work of an attempt. Work lost to a kill is repeated and counts again, so these
numbers may exceed the numbers of finished sources in `ledger.checks.counts`. This module does no
I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from strandline.ledger.checks.counts import StageTotals
from strandline.plan.receipt import DROPPED, StageCounts

_SWEEPING, _FEWEST_ROWS = 0.99, 10  # see `find_sweeping_rules`


class SweepingRule(NamedTuple):
    """A rule that dropped nearly all rows of a stage, probably because it does not fit the data.

    Attributes:
        stage: name of the stage.
        reason: name of the rule in the stage's counters.
        rows: number of dropped rows.
        of: number of rows that entered the stage.
    """

    stage: str
    reason: str
    rows: int
    of: int

    def __str__(self) -> str:
        rows = "all" if self.rows >= self.of else f"{self.rows:,} of"
        return f"one rule of {self.stage} dropped {rows} {self.of:,} rows: {self.reason}"


class Cost(NamedTuple):
    """Core-seconds that stages spent in their own code.

    Attributes:
        lost: estimated share of `used` spent on sources that the attempt left unfinished, in
            core-seconds.
    """

    used: float = 0.0
    lost: float = 0.0

    def add(self, other: Cost) -> Cost:
        """Return the sum of this cost and another."""
        return Cost(self.used + other.used, self.lost + other.lost)


def estimate_cost(
    counts: Mapping[str, StageCounts], cores: Mapping[str, float], done: int, *, is_cut: bool
) -> Cost:
    """Estimate the cost of an attempt.

    Args:
        counts: counts of the attempt's stages, in order.
        cores: cores per worker, by stage.
        done: number of sources that finished or failed in the attempt.
        is_cut: whether the attempt ended while sources were in flight.
    """
    used = sum(each.seconds * cores.get(name, 1.0) for name, each in counts.items())
    begun = next((each.tasks_in for each in counts.values()), 0)
    if not is_cut or begun <= done:
        return Cost(used, 0.0)
    # Assume that an unfinished source used as much as a finished source.
    return Cost(used, used * (begun - done) / begun)


class WorstKill(NamedTuple):
    """The cost of a kill at the worst moment: just before the largest source finishes.

    Attributes:
        key: key of that source.
        seconds: time that stages' own code needs for that source.
        mean: mean time for a source, in seconds.
    """

    key: str
    seconds: float
    mean: float


def estimate_worst(
    sources: Iterable[tuple[str, float, int]], seconds: float, done: int
) -> WorstKill | None:
    """Estimate the cost of a kill at the worst moment. Return None if there are no measurements.

    Args:
        sources: finished sources: key, seconds (0 if not measured), and bytes written.
        seconds: time that stages needed for all sources.
        done: number of those sources.
    """
    if not done or seconds <= 0:
        return None
    mean, known = seconds / done, list(sources)
    if not known:
        return None
    slowest = max(known, key=lambda source: source[1])
    if slowest[1] > 0:
        return WorstKill(slowest[0], slowest[1], mean)
    # Without measured times, assume that time is proportional to the bytes written.
    key, _, size = max(known, key=lambda source: source[2])
    total = sum(size for *_, size in known)
    return WorstKill(key, mean * size * len(known) / total if total else mean, mean)


def view_rows(counts: Mapping[str, StageCounts]) -> list[StageTotals]:
    """Return how many rows entered and left each stage in an attempt."""
    return [
        StageTotals(name, each.rows_in, each.rows_out, each.dead, _find_reasons(each))
        for name, each in counts.items()
    ]


def find_sweeping_rules(stages: Iterable[StageTotals]) -> list[SweepingRule]:
    """Return the rules that dropped nearly all rows of their stage."""
    rules = []
    for name, rows_in, rows_out, _, reasons in stages:
        # The input rows of a reader are files, but the reader drops lines of files, so take the
        # larger number.
        rows = max(rows_in, rows_out + sum(number for _, number in reasons))
        rules += [
            SweepingRule(name, reason, number, rows)
            for reason, number in reasons
            # All rows of a small sample may be bad by chance. With more rows, a rule that drops 99
            # of 100 rows is probably a mistake.
            if rows >= _FEWEST_ROWS and number >= _SWEEPING * rows
        ]
    return rules


def _find_reasons(counts: StageCounts) -> tuple[tuple[str, int], ...]:
    reasons = [
        (name.removeprefix(DROPPED), number)
        for name, number in counts.counters.items()
        if name.startswith(DROPPED)
    ]
    return tuple(sorted(reasons, key=lambda reason: (-reason[1], reason[0])))
