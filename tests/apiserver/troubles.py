"""Failures for a proxy to inject: kills of the operator at chosen calls, or random errors.

All failures are drawn from a seed. The module must not depend on how a failure is injected.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from counting_proxy import Call, Kind, Trouble

# Longest time in seconds until a watch is broken off.
LONGEST_WATCH = 8.0
LATE = 0.5  # share of these failures that occur after the server has executed the call
MAY_BE_LATE = frozenset({Kind.ERROR, Kind.CUT, Kind.TIMEOUT})


@dataclass(frozen=True, slots=True)
class KillPoint:
    """A moment before a call, or between its execution and its response.

    Attributes:
        count: position of the call, from 1, among the changing calls or among all calls.
        is_late: True if the server executes the call before the kill.
        of_all: True if reads and watches are counted, too.
    """

    count: int
    is_late: bool = False
    of_all: bool = False

    def __str__(self) -> str:
        """Return a text such as `after change 12`."""
        moment = "after" if self.is_late else "before"
        return f"{moment} {'call' if self.of_all else 'change'} {self.count}"


class KillSchedule:
    """Kill the operator once per point, in order. A missed point applies to the next call."""

    def __init__(self, points: Iterable[KillPoint]) -> None:
        self._left = deque(points)

    @property
    def left(self) -> int:
        """The number of remaining kills."""
        return len(self._left)

    def choose(self, call: Call) -> Trouble | None:
        if not self._left:
            return None
        point = self._left[0]
        count = call.number if point.of_all else call.change
        if not count or count < point.count:
            return None
        self._left.popleft()
        return Trouble(Kind.KILLED, is_late=point.is_late)


class RandomTroubles:
    """Fail a share of the calls, in every way, and break off every watch.

    Changes fail three times as often as reads, because a pass has many reads. Only one call gets no
    response at all, because its timeout takes half a minute.
    """

    def __init__(self, seed: str, rate: float) -> None:
        reads = (Kind.TOO_MANY, Kind.ERROR, Kind.CUT)
        self._watches = random.Random(f"{seed} watches")
        self._reads = Deck(f"{seed} reads", rate, (), reads)
        first, changes = (Kind.CONFLICT, Kind.TIMEOUT), (*reads, Kind.CONFLICT)
        self._changes = Deck(f"{seed} changes", 3 * rate, first, changes)

    def choose(self, call: Call) -> Trouble | None:
        if call.verb == "WATCH":
            return Trouble(Kind.DROPPED, seconds=self._watches.uniform(0.5, LONGEST_WATCH))
        return (self._changes if call.change else self._reads).deal()


class Deck:
    """Deals failures at a rate: first each kind of `first` once, then all `kinds` in turn."""

    def __init__(
        self, seed: str, rate: float, first: Iterable[Kind], kinds: Iterable[Kind]
    ) -> None:
        self._drawn = random.Random(seed)
        self._rate = rate
        self._kinds = itertools.chain(first, itertools.cycle(kinds))

    def deal(self) -> Trouble | None:
        """Return the next failure, or None."""
        if self._drawn.random() > self._rate:
            return None
        kind, is_late = next(self._kinds), self._drawn.random() < LATE
        return Trouble(kind, is_late=is_late and kind in MAY_BE_LATE)
