"""Which pipeline's pass is due when: pure, with the clock given.

A pipeline has at most one pass at a time; what happens during it asks for another one. Passes that
failed come again later and later. This room must not know what a pass does.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

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
        """Return whether another attempt may be made, and if not, when."""
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
        """Add or remove somebody who waits for it.

        So many spread their questions over that time.
        """
        if is_held:
            self._waiting.add(who)
        else:
            self._waiting.discard(who)

    def count(self, now: float) -> None:
        """Count an attempt that was made."""
        self._level = self._fill(now) - 1.0

    def _fill(self, now: float) -> float:
        most = max(1.0, self.per_minute) if self.per_minute else 0.0
        level = most if self._level is None else self._level
        gained = max(0.0, now - self._filled) * self.per_minute / _MINUTE
        self._level = min(most, level + gained)
        self._filled = max(now, self._filled)
        return self._level


FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 60.0
# Events come in bursts, as when a hundred pods start; one pass sees all of a burst.
LEAST_PAUSE = 0.5


class Key(NamedTuple):
    """A pipeline by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


Entry = tuple[float, int, Key]


@dataclass(slots=True)
class Schedule:
    """Who is due; times in seconds since the epoch."""

    _due: dict[Key, float] = field(default_factory=dict)
    _heap: list[Entry] = field(default_factory=list)
    _promised: list[Entry] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)
    _running: dict[Key, float] = field(default_factory=dict)
    _again: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)
    _held: dict[Key, float] = field(default_factory=dict)

    def enqueue(self, key: Key, now: float) -> None:
        """Make a pass due now, or a moment after the last one.

        Where that one failed, it is due once that has been waited for.
        """
        if key in self._running:
            self._again.add(key)
        else:
            self._advance(key, max(now, self._held.get(key, now)))

    def take(self, now: float) -> Key | None:
        """Return the pipeline that has been due for longest; its pass runs until it is finished.

        Times that were promised go first.
        """
        self._drop_stale()
        for heap in (self._promised, self._heap):
            if heap and heap[0][0] <= now:
                key = heapq.heappop(heap)[2]
                del self._due[key]
                self._running[key] = now
                return key
        return None

    def finish(
        self,
        key: Key,
        now: float,
        wake_at: float | None,
        *,
        is_promised: bool = False,
    ) -> None:
        """Note that a pass went well; another one is due at a time, or when something happens.

        Args:
            is_promised: somebody was told of that time, so that it goes before other passes.
        """
        del self._running[key]
        self._failures.pop(key, None)
        if wake_at is None and key not in self._again:
            self._held.pop(key, None)
            return
        self._held[key] = now + LEAST_PAUSE
        if wake_at is not None:
            heap = self._promised if is_promised else self._heap
            self._advance(key, max(wake_at, self._held[key]), heap)
        self._repeat(key, now)

    def fail(self, key: Key, now: float, *, at_least: float = 0.0) -> float:
        """Note that a pass failed; return the seconds until the next one.

        Args:
            at_least: seconds that the server asked to be left alone.
        """
        del self._running[key]
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures, 20)), at_least)
        self._held[key] = now + wait
        self._advance(key, now + wait)
        self._repeat(key, now)
        return wait

    @property
    def next_time(self) -> float | None:
        """Return when the next pass is due; None where none is."""
        self._drop_stale()
        return min((heap[0][0] for heap in (self._promised, self._heap) if heap), default=None)

    @property
    def depth(self) -> int:
        """Return how many pipelines wait for a time or for their turn."""
        return len(self._due)

    def lag(self, now: float) -> float:
        """Return how long somebody who is due has been waiting, in seconds."""
        due = self.next_time
        return 0.0 if due is None else max(0.0, now - due)

    def longest_pass(self, now: float) -> float:
        """Return how long the oldest pass has been running, in seconds."""
        return max((now - started for started in self._running.values()), default=0.0)

    def _repeat(self, key: Key, now: float) -> None:
        if key in self._again:
            self._again.remove(key)
            self.enqueue(key, now)

    def _advance(self, key: Key, time: float, heap: list[Entry] | None = None) -> None:
        if time < self._due.get(key, float("inf")):
            self._due[key] = time
            heapq.heappush(self._heap if heap is None else heap, (time, next(self._numbers), key))

    def _drop_stale(self) -> None:
        for heap in (self._promised, self._heap):
            while heap and self._due.get(heap[0][2]) != heap[0][0]:
                heapq.heappop(heap)


@dataclass(slots=True)
class SeenPipelines:
    """Pipelines that were seen, by uid."""

    _keys: dict[str, Key] = field(default_factory=dict)
    _uids: dict[Key, str] = field(default_factory=dict)

    def note(self, key: Key, uid: str) -> str:
        """Add a pipeline; return the uid of another one that had its name, or nothing."""
        former = self._uids.get(key, "")
        self._uids[key] = uid
        self._keys[uid] = key
        if former in {"", uid}:
            return ""
        self._keys.pop(former, None)
        return former

    def find(self, uid: str) -> Key | None:
        """Return the pipeline of that uid; None for one that was not seen."""
        return self._keys.get(uid)

    def remove(self, key: Key) -> str:
        """Remove a pipeline that is gone; return the uid that it had, or nothing."""
        uid = self._uids.pop(key, "")
        self._keys.pop(uid, None)
        return uid

    def __len__(self) -> int:
        return len(self._uids)
