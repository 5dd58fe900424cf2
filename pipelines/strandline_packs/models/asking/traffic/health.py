"""Tracks the availability of a server, and how long a stage waits for the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from strandline.plan.errors import StageStoppedError
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.verdicts.blame import ServerTraffic

_REPORTED_SETBACKS = 3  # consecutive failures before a report


class Clock(NamedTuple):
    """Time and randomness.

    Attributes:
        now: returns seconds since an arbitrary fixed point.
        sleep: waits for a number of seconds.
        draw: returns a random number from 0 to 1.
        wall: returns seconds since the epoch, from a clock that all workers share.
    """

    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    draw: Callable[[], float]
    wall: Callable[[], float]


class Terms(NamedTuple):
    """Limits of retries and of waiting for a server.

    Attributes:
        name: name of the server in messages.
        tries: maximum number of tries per question, while the server answers other questions.
        outage_limit: seconds without any answer after which the attempt ends.
        repairs: maximum number of requests to correct an invalid answer.
    """

    name: str
    tries: int
    outage_limit: float
    repairs: int


class ServerHealth:
    """Measures the time since the last answer of a server, and reports outages.

    Args:
        report: receives lines for users.
        traffic: outcomes of all rows at the server.

    Attributes:
        has_answered: whether the server has given a valid answer.
    """

    def __init__(
        self,
        terms: Terms,
        clock: Clock,
        report: Callable[[str], None],
        traffic: ServerTraffic,
    ) -> None:
        self._terms, self._clock, self._report = terms, clock, report
        self._traffic = traffic
        self._since: float | None = None
        self._in_a_row = 0
        self._is_reported = False
        self.has_answered = False

    def note_answer(self, *, is_good: bool) -> None:
        """Note an answer, and report the end of an outage."""
        now = self._clock.now()
        if self._is_reported and self._since is not None:
            since = self._format(self._since)
            self._report(
                f"{self._terms.name}: the server responds again since {self._format(now)}, after "
                f"not responding since {since}"
            )
        self._since, self._in_a_row, self._is_reported = None, 0, False
        if is_good:
            self.has_answered = True
            self._traffic.answered_at = now

    def note_setback(self, what: str) -> None:
        """Record a request without an answer.

        Raises:
            StageStoppedError: the server has not answered for too long.
        """
        now = self._clock.now()
        if self._since is None:
            self._since = now
        self._in_a_row += 1
        silent, name = now - self._since, self._terms.name
        if silent > self._terms.outage_limit:
            msg = f"{name}: the server has not responded for {silent:.0f} s; last: {what}"
            raise StageStoppedError(msg, cause=Cause.MODEL_UNAVAILABLE)
        if self._in_a_row >= _REPORTED_SETBACKS and not self._is_reported:
            self._is_reported = True
            since, until = self._since, self._since + self._terms.outage_limit
            self._report(
                f"{name}: the server has not responded since {self._format(since)} ({what}); "
                f"retrying until {self._format(until)}"
            )

    def _format(self, moment: float) -> str:
        """Format a time to the minute, so that workers report an outage with the same text."""
        seconds = self._clock.wall() + moment - self._clock.now()
        return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M UTC")
