"""Failures while a run is being stopped: the signal may have ended a program of the stage as well.

Service managers and batch systems send a signal to each process of a run, in any order. A failure
may come a moment before the signal does. This room must not know how a signal is received.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from strandline.plan.receipt import Receipt

WAIT_SECONDS = 0.2  # for a signal that is on its way
# Where failures are common, they wait no more often than that.
PERIOD_SECONDS = 10.0


class FailureDoubt:
    """Judges whether a failure counts against its source.

    Args:
        is_stopping: returns whether the signal has come.
        now: seconds from any fixed point.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        is_stopping: Callable[[], bool],
        now: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._is_stopping = is_stopping
        self._now = now
        self._sleep = sleep
        self._due = now()

    def concerns(self, receipt: Receipt) -> bool:
        """Return whether the signal may be the reason of failures in a receipt."""
        return receipt.has_failures and self.is_on()

    def is_on(self) -> bool:
        """Return whether the signal has come, waiting for it for a moment."""
        if not self._is_stopping() and self._now() >= self._due:
            self._due = self._now() + PERIOD_SECONDS
            self._sleep(WAIT_SECONDS)
        return self._is_stopping()
