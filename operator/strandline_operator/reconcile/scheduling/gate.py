"""How many attempts may be made, by all and by each namespace: pure, with the clock given.

What makes one, and what it is, stays unknown here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.model.view import Turn
from strandline_operator.reconcile.scheduling.schedule import Key

_MINUTE = 60.0
_ROUNDING = 1e-6


@dataclass(slots=True)
class _Bucket:
    """Attempts that may be made now, of some a minute, and the pipelines that wait for one."""

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
        # A clock that was put back gives nothing, and takes no longer from then on.
        gained = max(0.0, now - self.filled) * per_minute / _MINUTE
        self.level = min(most, level + gained)
        self.filled = now
        return self.level

    def is_idle(self, now: float, per_minute: float) -> bool:
        return not self.waiting and self.fill(now, per_minute) >= max(1.0, per_minute)


@dataclass(slots=True)
class DispatchGate:
    """Attempts that may be made now.

    Of several namespaces each may use its part, and one more part is left free: pipelines that fail
    by the hundred can't make those of another namespace wait, not even its first. Several passes
    may look at the same moment, so that a few more than allowed may go through; the next ones then
    wait for longer.

    Attributes:
        per_minute: 0 stops all.
    """

    per_minute: float
    _all: _Bucket = field(default_factory=_Bucket)
    _busy: dict[str, _Bucket] = field(default_factory=dict)

    def look(self, now: float, key: Key, *, is_alone: bool = True) -> Turn:
        """Return whether another attempt may be made, and if not, when.

        Args:
            key: of the pipeline that asks.
            is_alone: no other namespace has a pipeline, so that all is this one's.
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
        """Add or remove a pipeline that waits for it.

        So many spread their questions over that time.
        """
        if is_held:
            for bucket in (self._all, self._busy.setdefault(key.namespace, _Bucket())):
                bucket.waiting.add(key)
            return
        self._all.waiting.discard(key)
        if key.namespace in self._busy:
            self._busy[key.namespace].waiting.discard(key)

    def count(self, now: float, key: Key) -> None:
        """Count an attempt that was made."""
        self._all.level = self._all.fill(now, self.per_minute) - 1.0
        bucket = self._busy.setdefault(key.namespace, _Bucket())
        bucket.level = bucket.fill(now, self._find_share(key.namespace)) - 1.0
        shares = {name: self._find_share(name) for name in self._busy}
        idle = [name for name, each in self._busy.items() if each.is_idle(now, shares[name])]
        for name in idle:
            del self._busy[name]

    def _find_share(self, namespace: str) -> float:
        """Return how many a minute are a namespace's, among those that have made some or wait."""
        return self.per_minute / (len(self._busy.keys() | {namespace}) + 1)
