"""When things happened to attempts, as seen from outside, and how long one thing took to another.

Times are seconds since the epoch and come from the observer. This room must not know clocks.
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
    evidence: dict[AttemptId, float] = field(default_factory=dict)
    ended: dict[AttemptId, float] = field(default_factory=dict)
    due: dict[AttemptId, float] = field(default_factory=dict)
    made: dict[AttemptId, float] = field(default_factory=dict)
    phases: dict[tuple[str, str], str] = field(default_factory=dict)
    causes: dict[AttemptId, str] = field(default_factory=dict)

    def see_pipeline(self, body: Json, now: float) -> None:
        """Note that a pipeline was made or changed."""
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
        """Note that an attempt was made or changed."""
        spec, status = body["spec"], body.get("status") or {}
        attempt_id = AttemptId(body["metadata"]["namespace"], spec["pipeline"], spec["number"])
        self.made.setdefault(attempt_id, now)
        if status.get("endTime"):
            self.ended.setdefault(attempt_id, now)
        if status.get("isFrozen") and status.get("cause"):
            self.causes[attempt_id] = status["cause"]

    def show_evidence(self, attempt_id: AttemptId, now: float) -> None:
        """Note that first evidence of an attempt's end is on its way to the API server."""
        self.evidence.setdefault(attempt_id, now)

    @property
    def end_delays(self) -> list[float]:
        """Seconds from the evidence to the status that has the end."""
        return [
            self.ended[attempt_id] - at
            for attempt_id, at in self.evidence.items()
            if attempt_id in self.ended
        ]

    @property
    def retry_delays(self) -> list[float]:
        """Seconds from the time at which a retry was due to its attempt."""
        return [
            self.made[attempt_id] - at
            for attempt_id, at in self.due.items()
            if attempt_id.number > 1 and attempt_id in self.made
        ]

    @property
    def first_delays(self) -> list[float]:
        """Seconds from a pipeline to its first attempt."""
        firsts = {key: self.made.get(AttemptId(*key, 1)) for key in self.applied}
        return [at - self.applied[key] for key, at in firsts.items() if at is not None]


def take_share(numbers: Sequence[float], share: float) -> float:
    """Return the least of the numbers that at least this share of them does not exceed.

    0 of none.
    """
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
