"""Rate limit for new attempts, in total and per namespace. Pure: the time is a parameter.

The module must not depend on the creator or the contents of an attempt.
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
        # After the clock was set back, add nothing now, and count from the new time on.
        gained = max(0.0, now - self.filled) * per_minute / _MINUTE
        self.level = min(most, level + gained)
        self.filled = now
        return self.level

    def is_idle(self, now: float, per_minute: float) -> bool:
        return not self.waiting and self.fill(now, per_minute) >= max(1.0, per_minute)


@dataclass(slots=True)
class DispatchGate:
    """Rate limit for new attempts.

    Each active namespace may use its share, and one more share stays free: hundreds of failing
    pipelines can't delay the pipelines of another namespace, not even the first attempt there.
    Concurrent passes may slightly exceed the limit; later ones then wait longer.

    Attributes:
        per_minute: new attempts per minute; 0 blocks all.
    """

    per_minute: float
    _all: _Bucket = field(default_factory=_Bucket)
    _busy: dict[str, _Bucket] = field(default_factory=dict)

    def look(self, now: float, key: Key, *, is_alone: bool = True) -> Turn:
        """Return whether another attempt may be created now, or the time at which it may.

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

        The more pipelines wait, the further apart are their next tries.
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
        """Return a namespace's attempts per minute, shared with other active namespaces."""
        return self.per_minute / (len(self._busy.keys() | {namespace}) + 1)
