"""Limits the rate of new attempts, in total and per namespace. Time is a parameter.

This module must not depend on who creates an attempt, or on the contents of an attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.model.view import Turn
from strandline_operator.reconcile.scheduling.schedule import Key

_MINUTE = 60.0
_ROUNDING = 1e-6


@dataclass(slots=True)
class _Bucket:
    """Token bucket of attempts per minute, and the pipelines that wait for a token."""

    level: float | None = None
    filled: float = 0.0
    waiting: set[Key] = field(default_factory=set)

    def look(self, now: float, per_minute: float) -> Turn:
        level = self.fill(now, per_minute)
        if level >= 1.0 - _ROUNDING:
            return Turn()
        pace = _MINUTE / per_minute
        opens_at = self.filled + (1.0 - level) * pace
        return Turn(is_open=False, opens_at=opens_at, spread=len(self.waiting) * pace)

    def fill(self, now: float, per_minute: float) -> float:
        most = max(1.0, per_minute) if per_minute else 0.0
        level = most if self.level is None else self.level
        # If the clock was set back, add no tokens now, and count from the new time on.
        gained = max(0.0, now - self.filled) * per_minute / _MINUTE
        self.level = min(most, level + gained)
        self.filled = now
        return self.level

    def is_idle(self, now: float, per_minute: float) -> bool:
        return not self.waiting and self.fill(now, per_minute) >= max(1.0, per_minute)


@dataclass(slots=True)
class DispatchGate:
    """Rate limit for new attempts.

    Each active namespace has a share of the limit, and one more share is reserved: hundreds of
    failing pipelines can't delay the pipelines of another namespace, not even its first attempt.
    Concurrent passes may slightly exceed the limit, in which case later attempts wait longer.

    Attributes:
        per_minute: maximum number of new attempts per minute; 0 blocks all attempts.
    """

    per_minute: float
    _all: _Bucket = field(default_factory=_Bucket)
    _busy: dict[str, _Bucket] = field(default_factory=dict)

    def look(self, now: float, key: Key, *, is_alone: bool = True) -> Turn:
        """Return whether another attempt may be created now, or when.

        Args:
            key: the requesting pipeline.
            is_alone: whether no other namespace has a pipeline, so that no share is reserved.
        """
        if not self.per_minute:
            return Turn(is_open=False)
        turn = self._all.look(now, self.per_minute)
        if is_alone:
            return turn
        bucket = self._busy.get(key.namespace, _Bucket())
        own = bucket.look(now, self._find_share(key.namespace))
        return own if (own.opens_at or 0.0) > (turn.opens_at or 0.0) else turn

    def hold(self, key: Key, *, is_held: bool) -> None:
        """Add or remove a waiting pipeline.

        The more pipelines wait, the longer the intervals between their tries.
        """
        if is_held:
            for bucket in (self._all, self._busy.setdefault(key.namespace, _Bucket())):
                bucket.waiting.add(key)
            return
        self._all.waiting.discard(key)
        if key.namespace in self._busy:
            self._busy[key.namespace].waiting.discard(key)

    def count(self, now: float, key: Key) -> None:
        """Count a created attempt."""
        self._all.level = self._all.fill(now, self.per_minute) - 1.0
        bucket = self._busy.setdefault(key.namespace, _Bucket())
        bucket.level = bucket.fill(now, self._find_share(key.namespace)) - 1.0
        shares = {name: self._find_share(name) for name in self._busy}
        idle = [name for name, each in self._busy.items() if each.is_idle(now, shares[name])]
        for name in idle:
            del self._busy[name]

    def _find_share(self, namespace: str) -> float:
        """Return a namespace's share of the limit, in attempts per minute.

        One share is reserved in addition to the shares of active namespaces.
        """
        return self.per_minute / (len(self._busy.keys() | {namespace}) + 1)
