"""Records the times of attempts' events as an observer sees them, and computes delays.

Times are seconds since the epoch and come from the observer. This module must not read clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strandline_api.notation.times import parse_time

FINAL = frozenset({"Succeeded", "Failed"})
Json = Mapping[str, Any]


class AttemptId(NamedTuple):
    """An attempt's ID: its pipeline's namespace and name, and its number."""

    namespace: str
    pipeline: str
    number: int


@dataclass(slots=True)
class Moments:
    """Observations of all pipelines.

    Attributes:
        applied: time when each pipeline was applied.
        evidence: time when an attempt's end first became visible.
        ended: time when an attempt's status first had an end.
        due: time for which an attempt was scheduled.
        made: time when an attempt was first seen.
        phases: final phases of ended pipelines.
        causes: causes of failed attempts.
    """

    applied: dict[tuple[str, str], float] = field(default_factory=dict)
    evidence: dict[AttemptId, float] = field(default_factory=dict)
    ended: dict[AttemptId, float] = field(default_factory=dict)
    due: dict[AttemptId, float] = field(default_factory=dict)
    made: dict[AttemptId, float] = field(default_factory=dict)
    phases: dict[tuple[str, str], str] = field(default_factory=dict)
    causes: dict[AttemptId, str] = field(default_factory=dict)

    def see_pipeline(self, body: Json, now: float) -> None:
        """Record a new or changed pipeline."""
        metadata, status = body["metadata"], body.get("status") or {}
        key = (metadata["namespace"], metadata["name"])
        self.applied.setdefault(key, now)
        if status.get("phase") in FINAL:
            self.phases[key] = status["phase"]
        due = status.get("nextAttemptTime")
        if due is not None:
            attempt_id = AttemptId(*key, int(status.get("attempt") or 0) + 1)
            self.due.setdefault(attempt_id, parse_time(due))

    def see_attempt(self, body: Json, now: float) -> None:
        """Record a new or changed attempt."""
        spec, status = body["spec"], body.get("status") or {}
        attempt_id = AttemptId(body["metadata"]["namespace"], spec["pipeline"], spec["number"])
        self.made.setdefault(attempt_id, now)
        if status.get("endTime"):
            self.ended.setdefault(attempt_id, now)
        if status.get("isFrozen") and status.get("cause"):
            self.causes[attempt_id] = status["cause"]

    def show_evidence(self, attempt_id: AttemptId, now: float) -> None:
        """Record the time at which the first evidence of an attempt's end appears."""
        self.evidence.setdefault(attempt_id, now)

    @property
    def end_delays(self) -> list[float]:
        """Seconds from the first evidence of an attempt's end to the status with the end."""
        return [
            self.ended[attempt_id] - at
            for attempt_id, at in self.evidence.items()
            if attempt_id in self.ended
        ]

    @property
    def retry_delays(self) -> list[float]:
        """Seconds from a retry's scheduled time to the creation of its attempt."""
        return [
            self.made[attempt_id] - at
            for attempt_id, at in self.due.items()
            if attempt_id.number > 1 and attempt_id in self.made
        ]

    @property
    def first_delays(self) -> list[float]:
        """Seconds from the application of a pipeline to its first attempt."""
        firsts = {key: self.made.get(AttemptId(*key, 1)) for key in self.applied}
        return [at - self.applied[key] for key, at in firsts.items() if at is not None]


def take_share(numbers: Sequence[float], share: float) -> float:
    """Return the smallest number that is at least as large as this share of the numbers.

    Return 0 if there are no numbers.
    """
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
