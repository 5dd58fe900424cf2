"""Schedules passes. Time is a parameter.

A pipeline has at most one pass at a time. An event during a pass requests another pass. Failed
passes are retried with growing delays. Namespaces take turns, so that a namespace with a thousand
pipelines does not block other namespaces. This module must not depend on the contents of a pass.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 60.0
# Minimum seconds between passes over a pipeline. Events come in bursts, for example when a hundred
# pods start, and one pass handles a whole burst.
LEAST_PAUSE = 0.5
# Seconds by which the clock may be set back without an adjustment of due times.
_LEAST_STEP = 1.0


class Key(NamedTuple):
    """A pipeline by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


Entry = tuple[float, int, Key]


@dataclass(slots=True)
class _Turns:
    """Queues of passes that are due, one per namespace. Namespaces take turns."""

    _lines: OrderedDict[str, deque[Entry]] = field(default_factory=OrderedDict)

    def add(self, entry: Entry) -> None:
        """Append an entry to its namespace's queue."""
        self._lines.setdefault(entry[2].namespace, deque()).append(entry)

    def find(self, may_run: Callable[[str], bool], is_stale: Callable[[Entry], bool]) -> str | None:
        """Return the first namespace in turn order that may run a pass, if any."""
        turn, empty = None, []
        for namespace, line in self._lines.items():
            while line and is_stale(line[0]):
                line.popleft()
            if not line:
                empty.append(namespace)
            elif may_run(namespace):
                turn = namespace
                break
        for namespace in empty:
            del self._lines[namespace]
        return turn

    def take(self, namespace: str) -> Key:
        """Remove and return a namespace's first entry, and move the namespace to the end."""
        line = self._lines[namespace]
        key = line.popleft()[2]
        self._lines.move_to_end(namespace)
        if not line:
            del self._lines[namespace]
        return key

    def find_time(self, namespace: str) -> float:
        """Return the due time of a namespace's first entry."""
        return self._lines[namespace][0][0]

    def move(self, seconds: float) -> None:
        """Make all due times earlier by the given number of seconds."""
        for namespace, line in self._lines.items():
            self._lines[namespace] = deque(_move(line, seconds))


def _move(entries: Iterable[Entry], seconds: float) -> list[Entry]:
    return [(time - seconds, number, key) for time, number, key in entries]


@dataclass(slots=True)
class Schedule:
    """Due times of passes, in seconds since the epoch, and running passes.

    Attributes:
        most_running: maximum number of concurrent passes per namespace.
    """

    most_running: int = sys.maxsize
    _due: dict[Key, Entry] = field(default_factory=dict)
    _heap: list[Entry] = field(default_factory=list)
    _promised: list[Entry] = field(default_factory=list)
    _turns: _Turns = field(default_factory=_Turns)
    _promised_turns: _Turns = field(default_factory=_Turns)
    _numbers: count[int] = field(default_factory=count)
    _running: dict[Key, float] = field(default_factory=dict)
    _set_back: Counter[Key] = field(default_factory=Counter)
    _running_in: Counter[str] = field(default_factory=Counter)
    _again: set[Key] = field(default_factory=set)
    _urgent: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)
    _not_before: dict[Key, float] = field(default_factory=dict)
    _latest: float = float("-inf")

    def enqueue(self, key: Key, now: float, *, is_urgent: bool = False) -> None:
        """Request a pass now, or after the minimum pause since the last pass.

        After a failed pass, the pass is due when the retry delay ends.

        Args:
            is_urgent: whether to skip the minimum pause, and to give the pass priority.
        """
        self._follow_clock(now)
        if key in self._running:
            self._again.add(key)
            self._urgent |= {key} if is_urgent else set()
        elif is_urgent and key not in self._failures:
            # A pass that already waits for its turn gets priority too.
            due = self._due.pop(key, None)
            self._advance(key, now if due is None else min(now, due[0]), is_promised=True)
        else:
            self._advance(key, max(now, self._not_before.get(key, now)))

    def take(self, now: float) -> Key | None:
        """Return a pipeline whose pass is due, or None if no pass is due.

        The pass then counts as running. Passes at a time that a status shows come first. Namespaces
        take turns; within a namespace, the pass that has been due longest comes first. The pass is
        running until `finish` or `fail` is called.
        """
        self._follow_clock(now)
        for heap, turns in self._list_kinds():
            while heap and heap[0][0] <= now:
                turns.add(heapq.heappop(heap))
            namespace = turns.find(self._may_run, self._is_stale)
            if namespace is not None:
                key = turns.take(namespace)
                del self._due[key]
                self._running[key] = now
                self._running_in[namespace] += 1
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
        """Record a successful pass, and schedule the next pass at the given time.

        Args:
            wake_at: latest time of the next pass, or None to wait for an event.
            is_promised: whether a status shows `wake_at` to users, which gives the pass priority.
        """
        self._follow_clock(now)
        # `wake_at` is based on the clock at the start of the pass, so subtract the seconds by which
        # the clock was set back since. A pass that is too early is harmless.
        back = self._set_back[key]
        self._end(key)
        self._failures.pop(key, None)
        if wake_at is not None:
            wake_at -= back
        if wake_at is None and key not in self._again:
            self._not_before.pop(key, None)
            return
        self._not_before[key] = now + LEAST_PAUSE
        if wake_at is not None:
            self._advance(key, max(wake_at, self._not_before[key]), is_promised=is_promised)
        self._repeat(key, now)

    def fail(self, key: Key, now: float, *, at_least: float = 0.0) -> float:
        """Record a failed pass. Return the seconds until the next pass.

        Args:
            at_least: minimum delay in seconds, as requested by the server.
        """
        self._follow_clock(now)
        self._end(key)
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures, 20)), at_least)
        self._not_before[key] = now + wait
        self._advance(key, now + wait)
        self._repeat(key, now)
        return wait

    @property
    def next_time(self) -> float | None:
        """Return when the next pass that may run is due, or None if no pass is waiting."""
        times = []
        for heap, turns in self._list_kinds():
            while heap and self._is_stale(heap[0]):
                heapq.heappop(heap)
            times += [heap[0][0]] if heap else []
            namespace = turns.find(self._may_run, self._is_stale)
            times += [] if namespace is None else [turns.find_time(namespace)]
        return min(times, default=None)

    @property
    def depth(self) -> int:
        """Return how many pipelines wait for a time or for their turn."""
        return len(self._due)

    def lag(self, now: float) -> float:
        """Return for how many seconds the longest waiting pass has been due."""
        # Copy the values in one step, because the metrics thread calls this while the loop runs.
        due = min((time for time, _, _ in list(self._due.values())), default=now)
        return max(0.0, now - due)

    def note_sign(self, key: Key, now: float) -> None:
        """Record a sign of progress of a running pass."""
        if key in self._running:
            self._running[key] = now

    def longest_silence(self, now: float) -> float:
        """Return the longest time in seconds without progress of any running pass."""
        return max((now - sign for sign in self._running.values()), default=0.0)

    def _follow_clock(self, now: float) -> None:
        """If the clock was set back, make all times earlier, so that waits keep their duration.

        All times in the schedule come from the same clock.
        """
        back = self._latest - now
        if back <= _LEAST_STEP:
            self._latest = max(self._latest, now)
            return
        self._latest = now
        self._set_back.update(dict.fromkeys(self._running, back))
        self._due = {key: entry for entry in _move(self._due.values(), back) for key in entry[2:]}
        for heap, turns in self._list_kinds():
            heap[:] = _move(heap, back)
            turns.move(back)
        for times in (self._running, self._not_before):
            times.update({key: time - back for key, time in times.items()})

    def _list_kinds(self) -> tuple[tuple[list[Entry], _Turns], ...]:
        return (self._promised, self._promised_turns), (self._heap, self._turns)

    def _may_run(self, namespace: str) -> bool:
        return self._running_in[namespace] < self.most_running

    def _is_stale(self, entry: Entry) -> bool:
        return self._due.get(entry[2]) != entry

    def _end(self, key: Key) -> None:
        del self._running[key], self._set_back[key]
        self._running_in -= Counter([key.namespace])

    def _repeat(self, key: Key, now: float) -> None:
        if key in self._again:
            self._again.remove(key)
            self.enqueue(key, now, is_urgent=key in self._urgent)
        self._urgent.discard(key)

    def _advance(self, key: Key, time: float, *, is_promised: bool = False) -> None:
        due = self._due.get(key)
        if due is None or time < due[0]:
            entry = self._due[key] = (time, next(self._numbers), key)
            heapq.heappush(self._promised if is_promised else self._heap, entry)


@dataclass(slots=True)
class SeenPipelines:
    """Known pipelines by uid."""

    _keys: dict[str, Key] = field(default_factory=dict)
    _uids: dict[Key, str] = field(default_factory=dict)
    _namespaces: Counter[str] = field(default_factory=Counter)

    def note(self, key: Key, uid: str) -> str:
        """Add a pipeline.

        Return the uid of an earlier pipeline of this name, or an empty string.
        """
        former = self._uids.get(key, "")
        self._namespaces[key.namespace] += key not in self._uids
        self._uids[key] = uid
        self._keys[uid] = key
        if former in {"", uid}:
            return ""
        self._keys.pop(former, None)
        return former

    def find(self, uid: str) -> Key | None:
        """Return the pipeline with the given uid, or None if the uid is unknown."""
        return self._keys.get(uid)

    def remove(self, key: Key) -> str:
        """Remove a deleted pipeline. Return its uid, or an empty string if it is unknown."""
        if key in self._uids:
            self._namespaces -= Counter([key.namespace])
        uid = self._uids.pop(key, "")
        self._keys.pop(uid, None)
        return uid

    @property
    def are_of_one_namespace(self) -> bool:
        """Return True if no two pipelines are in different namespaces."""
        return len(self._namespaces) <= 1

    def __len__(self) -> int:
        return len(self._uids)
