"""The API server's clock, which the whole operator uses.

Objects carry server times, so with another clock a start would seem to last for hours. Each
response contains the server's time, and so does each created object. In between, a monotonic clock
is used. The module must not depend on the purpose of times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime

from strandline_api.notation.times import parse_time

# Synchronized clocks differ by less than this. The Date header has a resolution of one second.
TOLERANCE = 5.0
_SECOND = 1.0

_LOGGER = logging.getLogger(__name__)


class ServerClock:
    """Server time in seconds since the epoch; local time before the first response.

    Args:
        wall: local time, which may be wrong or be changed.
        elapsed: monotonic clock in seconds.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        return self._elapsed() + self._offset

    def elapse(self) -> float:
        """Return the monotonic time of sending a request, for `compare`."""
        return self._elapsed()

    def compare(self, date: str, sent_at: float) -> None:
        """Adjust to the server's time in a response if the clock is out of the possible range.

        Args:
            date: value of the `Date` header; invalid values are ignored.
            sent_at: result of `elapse` before the request.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parsedate_to_datetime(date).timestamp(), sent_at)

    def compare_made(self, created: object, sent_at: float) -> None:
        """Adjust to the creation time of a new object if the response had no date.

        A proxy may remove the header, but a created object always has the server's time.

        Args:
            created: the object's `creationTimestamp`; invalid values are ignored.
            sent_at: result of `elapse` before the request.
        """
        with suppress(ValueError, TypeError, OverflowError):
            self._take(parse_time(str(created)), sent_at)

    def _take(self, server_time: float, sent_at: float) -> None:
        # The header was written during that second, between request and response.
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
