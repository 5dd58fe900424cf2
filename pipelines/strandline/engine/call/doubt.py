"""Failures while a run is being stopped: the signal may also have ended a program of the stage.

Service managers and batch systems send a signal to each process of a run, in any order. A failure
may be seen shortly before the signal. The module must not depend on the way signals are received.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from strandline.plan.receipt import Receipt

WAIT_SECONDS = 0.2  # grace period for a signal that is still on its way
# Minimum interval between waits, for runs with many failures.
PERIOD_SECONDS = 10.0


class FailureDoubt:
    """Judges whether a failure counts against its source.

    Args:
        is_stopping: returns whether the signal has arrived.
        now: returns seconds from any fixed point.
        sleep: waits for a number of seconds.
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
        """Return whether the signal may be the reason for failures in a receipt."""
        return receipt.has_failures and self.is_on()

    def is_on(self) -> bool:
        """Return whether the signal has arrived, after a short wait if necessary."""
        if not self._is_stopping() and self._now() >= self._due:
            self._due = self._now() + PERIOD_SECONDS
            self._sleep(WAIT_SECONDS)
        return self._is_stopping()
