"""How many attempts may be made across the cluster: the brake on a storm of retries.

A bucket that holds as many as a minute may have and fills evenly. Pure; the clock is given. This
room must not know why an attempt is made.
"""

from __future__ import annotations

from dataclasses import dataclass

_MINUTE = 60.0


@dataclass(slots=True)
class DispatchGate:
    """Attempts that may be made now.

    Several passes may look at the same moment, so that a few more than allowed may go through; the
    next ones then wait for longer.

    Attributes:
        per_minute: 0 stops all.
    """

    per_minute: float
    _level: float | None = None
    _filled: float = 0.0

    def is_open(self, now: float) -> bool:
        """Whether another attempt may be made."""
        return self._fill(now) >= 1.0

    def count(self, now: float) -> None:
        """An attempt was made."""
        self._level = self._fill(now) - 1.0

    def _fill(self, now: float) -> float:
        most = max(1.0, self.per_minute) if self.per_minute else 0.0
        level = most if self._level is None else self._level
        gained = max(0.0, now - self._filled) * self.per_minute / _MINUTE
        self._level = min(most, level + gained)
        self._filled = max(now, self._filled)
        return self._level
