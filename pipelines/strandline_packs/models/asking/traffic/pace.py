"""Limits the concurrent requests to a server, and computes the waits between tries.

The limit grows while answers are as fast as usual, and halves when the server pushes back. This
module does no I/O and reads no clock: times are arguments. The module must not depend on the
requests or the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

FIRST_LIMIT = 8.0
# Answers up to this factor slower still count as normal. The factor is large because answers vary
# in length.
_SLOWER = 2.0
# Weights of a new answer in the exponential averages.
_USUAL_WEIGHT, _RECENT_WEIGHT = 0.02, 0.2
_BASE_SECONDS, _MOST_SECONDS = 1.0, 60.0  # first and longest wait between tries
_JITTER = 0.1  # random extension of requested pauses, as a share
_MILLISECONDS = 1000


class RequestPace:
    """Limit of requests in flight: increased step by step, and halved after overload.

    Args:
        most: upper bound of the limit.

    Attributes:
        limit: current limit; at least 1.
        held_until: time before which no request is sent.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(FIRST_LIMIT, float(most))
        self.held_until = -math.inf
        self._halved_at = -math.inf
        self._is_growing_fast = True
        self._in_a_row = 0  # push-backs since the last answer
        self._usual: float | None = None  # average duration of an answer, in seconds
        self._recent = 0.0

    def note_answer(self, seconds: float, in_flight: int) -> None:
        """Record an answer: its duration, and the number of requests in flight."""
        self._in_a_row = 0
        if self._usual is None:
            self._usual = self._recent = seconds
        self._usual += _USUAL_WEIGHT * (seconds - self._usual)
        self._recent += _RECENT_WEIGHT * (seconds - self._recent)
        # Below the limit, an answer is no evidence that the server can handle more.
        if in_flight < int(self.limit) or self._recent > _SLOWER * self._usual:
            return
        # Grow with every answer until the first overload, then by a single request per round.
        step = 1.0 if self._is_growing_fast else 1.0 / self.limit
        self.limit = min(float(self._most), self.limit + step)

    def note_push_back(self, begun: float, now: float, hold: float | None) -> None:
        """Record that the server is overloaded, or did not answer in time.

        Args:
            begun: start of the request. Requests that began before the last halving do not count,
                because the limit was higher then.
            now: current time.
            hold: pause that the server requests, in seconds, or None.
        """
        if hold is not None:
            self.held_until = max(self.held_until, now + hold)
        if begun >= self._halved_at:
            self.limit = max(1.0, self.limit / 2)
            self._halved_at = now
            self._is_growing_fast = False
            self._in_a_row += 1
            if self._in_a_row > 1:  # no answer in between: all requests wait
                own = find_backoff(self._in_a_row - 1)
                self.held_until = max(self.held_until, now + own)


def choose_wait(tries: int, hold: float | None, drawn: float) -> float:
    """Return the seconds before a request is tried again.

    Args:
        tries: failed tries, at least one.
        hold: pause that the server requests, in seconds, or None. A pause below the usual wait is
            ignored, because servers may request a pause of zero.
        drawn: random number from 0 to 1 that spreads simultaneous retries.
    """
    wait = find_backoff(tries)
    return max(wait / 2 + wait / 2 * drawn, (hold or 0.0) * (1 + _JITTER * drawn))


def find_backoff(tries: int) -> float:
    """Return the usual wait in seconds, which doubles with every consecutive failure.

    Args:
        tries: number of consecutive failures, at least one.
    """
    # Bound the exponent: a large power would overflow.
    return min(_MOST_SECONDS, _BASE_SECONDS * 2.0 ** min(tries - 1, 10))


def read_hold(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in an answer's `Retry-After`, or None if there is no valid header.

    A date is compared with the server's own clock, and a date in the past means no wait.

    Args:
        headers: headers with names in lower case.
    """
    # A header of OpenAI and Azure, more precise than `Retry-After`.
    milliseconds = _read_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    text = headers.get("retry-after", "").strip()
    seconds = _read_number(text)
    if seconds is not None or not text:
        return seconds
    until, now = _read_date(text), _read_date(headers.get("date", ""))
    return None if until is None or now is None else max(0.0, (until - now).total_seconds())


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _read_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
