"""Work of attempts: the rows that went through stages, what it cost, and what a kill costs.

An attempt counts its own work. Work that is lost to a kill is done again and counts again, so these
numbers may be more than those of the finished sources, which `ledger.checks.counts` has. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from strandline.ledger.checks.counts import StageTotals
from strandline.plan.receipt import DROPPED, StageCounts

_SWEEPING, _FEWEST_ROWS = 0.99, 10


class SweepingRule(NamedTuple):
    """A rule that took nearly all rows of a stage, as one does that does not fit the data.

    Attributes:
        stage: its name.
        reason: as the stage counts it.
        rows: that it took.
        of: rows that came.
    """

    stage: str
    reason: str
    rows: int
    of: int

    def __str__(self) -> str:
        rows = "all" if self.rows >= self.of else f"{self.rows:,} of"
        return f"one rule of {self.stage} took {rows} {self.of:,} rows: {self.reason}"


class Cost(NamedTuple):
    """Seconds of cores that stages were given, in their own code.

    Attributes:
        lost: about how many of them went into sources that the attempt left unfinished.
    """

    used: float = 0.0
    lost: float = 0.0

    def add(self, other: Cost) -> Cost:
        """Return both."""
        return Cost(self.used + other.used, self.lost + other.lost)


def estimate_cost(
    counts: Mapping[str, StageCounts], cores: Mapping[str, float], done: int, *, is_cut: bool
) -> Cost:
    """Return what an attempt has cost.

    Args:
        counts: of its stages, in order.
        cores: that a worker of each stage has.
        done: sources that it has finished, or that have failed in it.
        is_cut: it ended while sources were in flight.
    """
    used = sum(each.seconds * cores.get(name, 1.0) for name, each in counts.items())
    begun = next((each.tasks_in for each in counts.values()), 0)
    if not is_cut or begun <= done:
        return Cost(used, 0.0)
    return Cost(used, used * (begun - done) / begun)


class WorstKill(NamedTuple):
    """What a kill costs at the worst moment: at the end of the largest source.

    Attributes:
        key: of that source.
        seconds: of stages' own code that it takes.
        mean: that a source takes.
    """

    key: str
    seconds: float
    mean: float


def estimate_worst(
    sources: Iterable[tuple[str, float, int]], seconds: float, done: int
) -> WorstKill | None:
    """Return what a kill costs at the worst moment; None where nothing was measured.

    Args:
        sources: finished ones: key, seconds where they were measured (else 0), bytes written.
        seconds: that stages took for all sources.
        done: how many these were.
    """
    if not done or seconds <= 0:
        return None
    mean, known = seconds / done, list(sources)
    if not known:
        return None
    slowest = max(known, key=lambda source: source[1])
    if slowest[1] > 0:
        return WorstKill(slowest[0], slowest[1], mean)
    # Seconds go with what comes of a source, as far as anything is known of it.
    key, _, size = max(known, key=lambda source: source[2])
    total = sum(size for *_, size in known)
    return WorstKill(key, mean * size * len(known) / total if total else mean, mean)


def view_rows(counts: Mapping[str, StageCounts]) -> list[StageTotals]:
    """Return the rows that went through each stage in an attempt."""
    return [
        StageTotals(name, each.rows_in, each.rows_out, each.dead, _find_reasons(each))
        for name, each in counts.items()
    ]


def find_sweeping_rules(stages: Iterable[StageTotals]) -> list[SweepingRule]:
    """Find the rules that took nearly all rows that came to their stage."""
    rules = []
    for name, rows_in, rows_out, _, reasons in stages:
        # A reader gets files, one row each, and drops lines of them.
        rows = max(rows_in, rows_out + sum(number for _, number in reasons))
        rules += [
            SweepingRule(name, reason, number, rows)
            for reason, number in reasons
            # Few rows may all be wrong by chance; and hardly any stage is meant to take 99 of 100.
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
