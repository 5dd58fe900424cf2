"""How many requests a server is asked at a time, and how long a try is waited for.

It grows while answers come as fast as usual, and halves when the server pushes back. Pure: times
come in as arguments. It must not know what is asked, nor of whom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

FIRST_LIMIT = 8.0
# Answers are as fast as usual up to this much; their length varies, so that is far from exact.
_SLOWER = 2.0
_USUAL_WEIGHT, _RECENT_WEIGHT = 0.02, 0.2
_BASE_SECONDS, _MOST_SECONDS = 1.0, 60.0
_JITTER = 0.1
_MILLISECONDS = 1000


class RequestPace:
    """Requests that may be in flight: added to one by one, halved where there were too many.

    Args:
        most: never more than that.

    Attributes:
        limit: how many there may be now; at least one.
        held_until: nothing is asked before that time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(FIRST_LIMIT, float(most))
        self.held_until = -math.inf
        self._halved_at = -math.inf
        self._is_growing_fast = True
        self._in_a_row = 0  # times that the server pushed back, since its last answer
        self._usual: float | None = None  # seconds of an answer
        self._recent = 0.0

    def note_answer(self, seconds: float, in_flight: int) -> None:
        """Note an answer: how long it took, and how many requests were in flight with it."""
        self._in_a_row = 0
        if self._usual is None:
            self._usual = self._recent = seconds
        self._usual += _USUAL_WEIGHT * (seconds - self._usual)
        self._recent += _RECENT_WEIGHT * (seconds - self._recent)
        # A limit that is not reached says nothing of what the server bears.
        if in_flight < int(self.limit) or self._recent > _SLOWER * self._usual:
            return
        step = 1.0 if self._is_growing_fast else 1.0 / self.limit
        self.limit = min(float(self._most), self.limit + step)

    def note_push_back(self, begun: float, now: float, hold: float | None) -> None:
        """Note that the server has too much to do, or did not answer in time.

        Args:
            begun: when it was asked; one that was under way at the last halving tells nothing new.
            hold: seconds after which it wants to be asked again; None: it does not say.
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
        tries: that have failed, at least one.
        hold: seconds that the server asks for, or None; a request to wait for a shorter time than
            usual is ignored, because the server may ask for none at all.
        drawn: from 0 to 1, so that many who wait do not come back together.
    """
    wait = find_backoff(tries)
    return max(wait / 2 + wait / 2 * drawn, (hold or 0.0) * (1 + _JITTER * drawn))


def find_backoff(tries: int) -> float:
    """Return the usual seconds after so many tries in a row, at least one: twice as many each."""
    return min(_MOST_SECONDS, _BASE_SECONDS * 2.0 ** min(tries - 1, 10))


def read_hold(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's `Retry-After` asks for; None where it has none.

    A date is taken from the server's own clock, and one that has passed is no wait.

    Args:
        headers: by names in lower case.
    """
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
