"""How long an attempt that was asked to stop may go on working. Pure; the clock is given."""

from __future__ import annotations

from collections.abc import Callable

# Of the grace period so much is left for flushing, publishing and the end of processes.
MARGIN_SHARE = 1 / 3
MARGIN_MOST = 10.0


class Grace:
    """Counts from the moment at which it first sees that a stop is asked for.

    Args:
        must_stop: asks.
        period: seconds until whoever asked may use force.
        now: seconds from any fixed point.
    """

    def __init__(
        self, must_stop: Callable[[], bool], period: float, now: Callable[[], float]
    ) -> None:
        self._must_stop = must_stop
        self._working = period - min(MARGIN_MOST, period * MARGIN_SHARE)
        self._now = now
        self._began: float | None = None

    def is_over(self) -> bool:
        """True once what is in flight is to be given up."""
        if not self._must_stop():
            return False
        if self._began is None:
            self._began = self._now()
        return self._now() - self._began >= self._working
