"""Derives the steady-state cost of a task from the times at which tasks leave the last stage."""

from __future__ import annotations

from collections.abc import Callable

_WARM_SHARE = 0.2  # share of the tasks to ignore while workers start and queues fill


class SteadyRate:
    """Seconds per task between the end of the warm-up and the last recorded task.

    Args:
        total: number of tasks of the run.
        now: clock in seconds.
    """

    def __init__(self, total: int, now: Callable[[], float]) -> None:
        self._total = total
        self._now = now
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)

    def note(self, done: int) -> None:
        """Record that this many more tasks have left the last stage."""
        if done == self._last[0]:
            return
        self._last = (done, self._now())
        if self._first is None and done >= self._total * _WARM_SHARE:
            self._first = self._last

    @property
    def seconds_per_task(self) -> float:
        """The seconds per task.

        Raises:
            RuntimeError: if too few tasks were recorded.
        """
        if self._first is None or self._last[0] < self._total * 0.9:
            msg = f"only {self._last[0]} of {self._total} tasks were seen"
            raise RuntimeError(msg)
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
