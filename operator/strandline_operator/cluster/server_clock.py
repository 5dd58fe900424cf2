"""The API server's time, by which the whole operator goes.

Objects carry the times of their server, so an operator of another opinion would see starts that
last for hours. Each answer names the server's time, and so does whatever was just made; between two
of them runs the clock that is never set. This room must not know what is timed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime

from strandline_api.notation.times import parse_time

# Clocks that are kept together differ by less, and an answer's time is cut to the second.
TOLERANCE = 5.0
_SECOND = 1.0

_LOGGER = logging.getLogger(__name__)


class ServerClock:
    """Seconds since the epoch by the server's clock; by this machine's before its first answer.

    Args:
        wall: this machine's time, which may be wrong or be set.
        elapsed: seconds since any moment, which only ever grow.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        return self._elapsed() + self._offset

    def elapse(self) -> float:
        """Return when a request is sent, for `compare`."""
        return self._elapsed()

    def compare(self, date: str, sent_at: float) -> None:
        """Take the server's time from an answer, where ours can't be the same.

        Args:
            date: value of the header `Date`; anything that is none says nothing.
            sent_at: what `elapse` gave when the request was sent.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parsedate_to_datetime(date).timestamp(), sent_at)

    def compare_made(self, created: object, sent_at: float) -> None:
        """Take it from an object that the server has just made, where the answer had no date.

        Something on the way may take that off; what is made has the server's time all the same.

        Args:
            created: its `creationTimestamp`; anything that is none says nothing.
            sent_at: as for `compare`.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parse_time(str(created)), sent_at)

    def _take(self, server_time: float, sent_at: float) -> None:
        # The header was written at some moment of that second, between question and answer.
        least, most = server_time - self._elapsed(), server_time + _SECOND - sent_at
        if least - TOLERANCE <= self._offset <= most + TOLERANCE:
            return
        nearest = min(max(self._offset, least), most)
        step, self._offset = nearest - self._offset, nearest
        _LOGGER.warning(
            "the API server's clock is %.0f s %s of ours: its time is taken",
            abs(step),
            "ahead" if step > 0 else "behind",
        )
