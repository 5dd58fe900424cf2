"""A clock that follows the API server's time, which the whole operator uses.

Objects contain the server's times, so with another clock, a start could seem to last for hours.
Each response contains the server's time, and so does each created object. Between responses, a
monotonic clock continues. This module must not depend on how times are used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime

from strandline_api.notation.times import parse_time

# Seconds by which synchronized clocks may differ. The Date header has a resolution of one second.
TOLERANCE = 5.0
_SECOND = 1.0

_LOGGER = logging.getLogger(__name__)


class ServerClock:
    """Server time in seconds since the epoch. Before the first response, local time.

    Args:
        wall: function that returns local time, which may be wrong or change.
        elapsed: function that returns monotonic time in seconds.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        return self._elapsed() + self._offset

    def elapse(self) -> float:
        """Return the monotonic time, to be passed to `compare` after the request."""
        return self._elapsed()

    def compare(self, date: str, sent_at: float) -> None:
        """Adjust the clock if a response shows that it is wrong.

        Args:
            date: value of the `Date` header; invalid values are ignored.
            sent_at: result of `elapse` before the request.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parsedate_to_datetime(date).timestamp(), sent_at)

    def compare_made(self, created: object, sent_at: float) -> None:
        """Adjust the clock to the creation time of a new object, if the response had no date.

        A proxy may remove the header, but a created object always has the server's time.

        Args:
            created: the object's `creationTimestamp`; invalid values are ignored.
            sent_at: result of `elapse` before the request.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parse_time(str(created)), sent_at)

    def _take(self, server_time: float, sent_at: float) -> None:
        # The server wrote the time between request and response. The true time is within the second
        # that follows, because the time was rounded down.
        least, most = server_time - self._elapsed(), server_time + _SECOND - sent_at
        if least - TOLERANCE <= self._offset <= most + TOLERANCE:
            return
        nearest = min(max(self._offset, least), most)
        step, self._offset = nearest - self._offset, nearest
        _LOGGER.warning(
            "the API server's clock is %.0f s %s ours; using the server's time",
            abs(step),
            "ahead of" if step > 0 else "behind",
        )
