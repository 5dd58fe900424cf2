"""When things happened to attempts, as seen from outside, and how long one thing took to another.

Times are seconds since the epoch and come from whoever looks. This room must not know clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strandline_api.times import parse_time

FINAL = frozenset({"Succeeded", "Failed"})
Json = Mapping[str, Any]


class Turn(NamedTuple):
    """An attempt: namespace and name of its pipeline, and its number."""

    namespace: str
    pipeline: str
    number: int


@dataclass(slots=True)
class Moments:
    """What was seen of all pipelines.

    Attributes:
        applied: when each pipeline was.
        evidence: when the end of an attempt began to show.
        ended: when its status first had an end.
        due: the time at which an attempt was to be made.
        made: when it was first seen.
        phases: of pipelines that are over.
        causes: of attempts that have ended badly.
    """

    applied: dict[tuple[str, str], float] = field(default_factory=dict)
    evidence: dict[Turn, float] = field(default_factory=dict)
    ended: dict[Turn, float] = field(default_factory=dict)
    due: dict[Turn, float] = field(default_factory=dict)
    made: dict[Turn, float] = field(default_factory=dict)
    phases: dict[tuple[str, str], str] = field(default_factory=dict)
    causes: dict[Turn, str] = field(default_factory=dict)

    def see_pipeline(self, body: Json, now: float) -> None:
        """A pipeline was made or changed."""
        metadata, status = body["metadata"], body.get("status") or {}
        place = (metadata["namespace"], metadata["name"])
        self.applied.setdefault(place, now)
        if status.get("phase") in FINAL:
            self.phases[place] = status["phase"]
        due = status.get("nextAttemptTime")
        if due is not None:
            turn = Turn(*place, int(status.get("attempt") or 0) + 1)
            self.due.setdefault(turn, parse_time(due))

    def see_attempt(self, body: Json, now: float) -> None:
        """An attempt was made or changed."""
        spec, status = body["spec"], body.get("status") or {}
        turn = Turn(body["metadata"]["namespace"], spec["pipeline"], spec["number"])
        self.made.setdefault(turn, now)
        if status.get("endTime"):
            self.ended.setdefault(turn, now)
        if status.get("isFrozen") and status.get("cause"):
            self.causes[turn] = status["cause"]

    def show_evidence(self, turn: Turn, now: float) -> None:
        """The first word of an attempt's end is on its way to the API server."""
        self.evidence.setdefault(turn, now)

    @property
    def end_delays(self) -> list[float]:
        """Seconds from the evidence to the status that has the end."""
        return [self.ended[turn] - at for turn, at in self.evidence.items() if turn in self.ended]

    @property
    def retry_delays(self) -> list[float]:
        """Seconds from the time at which a retry was due to its attempt."""
        return [
            self.made[turn] - at
            for turn, at in self.due.items()
            if turn.number > 1 and turn in self.made
        ]

    @property
    def first_delays(self) -> list[float]:
        """Seconds from a pipeline to its first attempt."""
        firsts = {place: self.made.get(Turn(*place, 1)) for place in self.applied}
        return [at - self.applied[place] for place, at in firsts.items() if at is not None]


def take_share(numbers: Sequence[float], share: float) -> float:
    """The least of the numbers that at least this share of them does not exceed; 0 of none."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
