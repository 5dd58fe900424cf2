"""Measures how long a run was suspended or waiting: time that does not count toward the deadline.

The status keeps this record, so a restarted operator continues from it. This module must not depend
on the reason for a pause.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from strandline_api.api_model import evolve
from strandline_api.notation.times import Time
from strandline_api.status.records import Record


class RunClock(Record):
    """Time of a run that 'deadlines.run' does not count."""

    paused_seconds: Annotated[float, Field(ge=0)] = Field(
        default=0.0,
        description=(
            "Number of seconds for which the run was suspended or queued, or no node had room, not "
            "counting a current pause."
        ),
    )
    paused_since: Time | None = Field(
        default=None,
        description="Time at which the current pause began. Absent while the run continues.",
    )

    def tick(self, now: float, *, is_paused: bool) -> Self:
        """Return the clock after another observation, with a pause started or ended if needed.

        Args:
            now: seconds since the epoch, as in all methods.
            is_paused: whether the run is currently suspended or waiting.
        """
        if is_paused:
            since = now if self.paused_since is None else self.paused_since
            return evolve(self, paused_since=since)
        seconds = round(self.count_paused(now), 3)
        return evolve(self, paused_seconds=seconds, paused_since=None)

    def count_paused(self, now: float) -> float:
        """Return the seconds that do not count, including a current pause."""
        # The clock of a new operator on another node may be behind.
        going_on = 0.0 if self.paused_since is None else max(0.0, now - self.paused_since)
        return self.paused_seconds + going_on
