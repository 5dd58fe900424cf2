"""What became of the rows of a run, stage by stage, over all of its attempts, and what it cost.

An attempt knows what went through it; what was lost to a kill goes through once more in the next
and counts there again. What is finished is the ledger's to know. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from strandline.plan.receipt import StageCounts

DROPPED = "dropped: "  # how stages begin the names of counters that say why a row went

_SWEEPING, _FEWEST_ROWS = 0.99, 10

RETELLING = (
    "What an interruption made necessary a second time is counted a second time, and a kill takes "
    "the counts of its last seconds along."
)


class StageFunnel(NamedTuple):
    """What went into a stage and out of it.

    Attributes:
        counts: of all attempts.
        dropped: rows by the reason that the stage gave, the most first.
    """

    name: str
    counts: StageCounts
    dropped: tuple[tuple[str, int], ...]

    @property
    def share_kept(self) -> float | None:
        """Rows out for each row that was decided on; None where none was.

        A task that failed comes again in the next attempt, so its rows are in `rows_in` once for
        each try and were decided on in none of them.
        """
        counts, dropped = self.counts, sum(number for _, number in self.dropped)
        if dropped:
            return counts.rows_out / (counts.rows_out + dropped)
        # Rows of failed tasks are not counted apart: they are taken to be as many as in others.
        begun = max(counts.tasks_in, 1)
        decided = counts.rows_in * max(counts.tasks_in - counts.failed, 0) / begun
        return counts.rows_out / decided if decided else None


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


def add_up(attempts: Iterable[Mapping[str, StageCounts]]) -> tuple[StageFunnel, ...]:
    """Return the funnel of several attempts, in the order of the stages."""
    totals: dict[str, StageCounts] = {}
    for counts in attempts:
        for name, each in counts.items():
            totals.setdefault(name, StageCounts()).add(each)
    return tuple(
        StageFunnel(name, counts, _find_reasons(counts)) for name, counts in totals.items()
    )


def find_sweeping_rules(counts: Mapping[str, StageCounts]) -> list[SweepingRule]:
    """Find the rules that took nearly all of what came, by the counts of each stage."""
    rules = []
    for name, each in counts.items():
        reasons = _find_reasons(each)
        # A reader gets files, one row each, and drops lines of them.
        rows = max(each.rows_in, each.rows_out + sum(number for _, number in reasons))
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
