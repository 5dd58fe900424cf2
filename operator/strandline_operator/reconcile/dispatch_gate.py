"""How many attempts may be made across the cluster: the brake on a storm of retries.

A bucket that holds as many as a minute may have and fills evenly. Pure; the clock is given. This
room must not know why an attempt is made.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from strandline_operator.model.view import Turn

_MINUTE = 60.0
_ROUNDING = 1e-6


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
    _waiting: set[Hashable] = field(default_factory=set)

    def look(self, now: float) -> Turn:
        """Whether another attempt may be made, and if not, when."""
        level = self._fill(now)
        if level >= 1.0 - _ROUNDING:
            return Turn()
        if not self.per_minute:
            return Turn(is_open=False)
        pace = _MINUTE / self.per_minute
        # From the moment that it has filled up to: a clock that was put back waits for that.
        opens_at = self._filled + (1.0 - level) * pace
        return Turn(is_open=False, opens_at=opens_at, spread=len(self._waiting) * pace)

    def hold(self, who: Hashable, *, is_held: bool) -> None:
        """Somebody waits for it, or no longer; so many spread their questions over that time."""
        if is_held:
            self._waiting.add(who)
        else:
            self._waiting.discard(who)

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
