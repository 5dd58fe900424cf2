"""Decides whether a failure counts while a run is being stopped.

The failure may be a consequence of the stop: service managers and batch systems send a signal to
every process of a run, in any order, so the signal may have ended a program of the stage. This
process may also notice the failure shortly before it receives the signal. The module must not
depend on how signals are received.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from strandline.plan.receipt import Receipt

WAIT_SECONDS = 0.2  # time to wait for a signal that has not arrived here yet
# Minimum interval between two waits, for runs with many failures.
PERIOD_SECONDS = 10.0


class FailureDoubt:
    """Decides whether a failure counts against its source.

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
        """Return whether the signal may be the reason for the failures in a receipt."""
        return receipt.has_failures and self.is_on()

    def is_on(self) -> bool:
        """Return whether the signal has arrived, after a short wait if necessary."""
        if not self._is_stopping() and self._now() >= self._due:
            self._due = self._now() + PERIOD_SECONDS
            self._sleep(WAIT_SECONDS)
        return self._is_stopping()
