"""Chooses the cuts that save the most work per byte.

This module does no I/O, and must not depend on ledgers, or on the measurement of seconds and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

WRITING = 100e6  # bytes per second that can be compressed, written, and synced
SHARE = 20  # writing cuts may take at most 1/20 of the work


class CutMeasure(NamedTuple):
    """Measures of a stage, averaged over sources.

    Attributes:
        seconds: time in the stage's own code.
        size: bytes of the stage's output in a cut, or None if the output can't be kept.
    """

    seconds: float
    size: float | None


class CutVerdict(StrEnum):
    """Decision about the cut after a stage, and the reason."""

    KEPT = "kept"
    ASKED = "requested"
    IMPOSSIBLE = "can't be kept"
    SAVES_LITTLE = "writing it would take more than a twentieth of what it saves"
    SLOWS = "writing all kept output would take more than a twentieth of the run's work"
    TOO_LARGE = "its size would exceed keepAtMost"


class ConsideredCut(NamedTuple):
    """A cut with the decision about it.

    Attributes:
        stage: the stage before the cut.
        verdict: the decision.
        seconds: seconds saved per source: the work since the previous kept cut.
        size: bytes per source.
    """

    stage: str
    verdict: CutVerdict
    seconds: float
    size: float

    @property
    def is_kept(self) -> bool:
        """Return True if the cut is kept."""
        return self.verdict in {CutVerdict.KEPT, CutVerdict.ASKED}


def choose_cuts(
    measures: Mapping[str, CutMeasure],
    candidates: Sequence[str],
    asked: Sequence[str],
    sources: int,
    at_most: int | None,
) -> list[ConsideredCut]:
    """Return a decision on each candidate. Kept cuts come first, in the order of their worth.

    Args:
        measures: measures of all stages by name, in order.
        candidates: stages that may have a cut.
        asked: stages that request a cut, which is always kept.
        sources: number of sources of the pipeline.
        at_most: maximum bytes of all cuts of all sources, or None for no limit.
    """
    choice = _Choice(measures, sources, at_most)
    kept = [choice.take(stage, CutVerdict.ASKED) for stage in asked if stage in measures]
    left = [stage for stage in candidates if stage in measures and stage not in asked]
    refused = []
    while left:
        # Compare again in every round, because each chosen cut changes the savings of other cuts.
        best = max(left, key=choice.value)
        left.remove(best)
        verdict = choice.judge(best)
        if verdict is CutVerdict.KEPT:
            kept.append(choice.take(best, verdict))
        else:
            refused.append(choice.describe(best, verdict))
    return [*kept, *refused]


class _Choice:
    """The cuts chosen so far."""

    def __init__(
        self, measures: Mapping[str, CutMeasure], sources: int, at_most: int | None
    ) -> None:
        self._measures = measures
        self._order = list(measures)
        self._work = sum(each.seconds for each in measures.values())
        self._room = None if at_most is None else at_most / max(1, sources)
        self._taken: set[str] = set()
        self._size = 0.0

    def value(self, stage: str) -> tuple[float, int]:
        """Return the seconds that a cut saves per byte. For equal savings, prefer a later cut."""
        size = self._measures[stage].size
        return self._saved(stage) / max(1.0, size or 0.0), self._order.index(stage)

    def judge(self, stage: str) -> CutVerdict:
        """Decide whether to keep a cut, given the cuts chosen so far."""
        size = self._measures[stage].size
        if size is None:
            return CutVerdict.IMPOSSIBLE
        if size / WRITING * SHARE > self._saved(stage):
            return CutVerdict.SAVES_LITTLE
        if (self._size + size) / WRITING * SHARE > self._work:
            return CutVerdict.SLOWS
        if self._room is not None and self._size + size > self._room:
            return CutVerdict.TOO_LARGE
        return CutVerdict.KEPT

    def take(self, stage: str, verdict: CutVerdict) -> ConsideredCut:
        """Add a cut to the chosen cuts, and return it with the decision."""
        judged = self.describe(stage, verdict)
        self._taken.add(stage)
        self._size += judged.size
        return judged

    def describe(self, stage: str, verdict: CutVerdict) -> ConsideredCut:
        """Return a cut with the decision and its measures."""
        return ConsideredCut(stage, verdict, self._saved(stage), self._measures[stage].size or 0.0)

    def _saved(self, stage: str) -> float:
        return sum(self._measures[each].seconds for each in self._list_saved(stage))

    def _list_saved(self, stage: str) -> Iterator[str]:
        """Yield a stage and the stages before it, back to the previous chosen cut."""
        for each in reversed(self._order[: self._order.index(stage) + 1]):
            if each in self._taken:
                return
            yield each
