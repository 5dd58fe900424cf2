"""What a proxy may be told to do to an operator: kill it at chosen calls, or fail calls at random.

All of it is drawn from a seed. This room must not know how the trouble is made.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from counting_proxy import Call, Kind, Trouble

# A watch that is to break off does so after about as many seconds.
LONGEST_WATCH = 8.0
LATE = 0.5  # share of these failures that come after the server has done what was asked
MAY_BE_LATE = frozenset({Kind.ERROR, Kind.CUT, Kind.TIMEOUT})


@dataclass(frozen=True, slots=True)
class KillPoint:
    """Before a call, or after it was done and before its answer.

    Attributes:
        count: the number of the call, from 1 on: of those that change something, or of all.
        is_late: the call is carried out first.
        of_all: reads and watches are counted too.
    """

    count: int
    is_late: bool = False
    of_all: bool = False

    def __str__(self) -> str:
        """Such as `after change 12`."""
        moment = "after" if self.is_late else "before"
        return f"{moment} {'call' if self.of_all else 'change'} {self.count}"


class KillSchedule:
    """Kills at points, each once, in the order of the list; one that was missed is made up for."""

    def __init__(self, points: Iterable[KillPoint]) -> None:
        self._left = deque(points)

    @property
    def left(self) -> int:
        """How many have not happened."""
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
    """Fails a share of the calls, in every way, and lets every watch break off.

    Changes fail three times as often as reads, of which there are many in one pass. An answer that
    never comes takes the operator half a minute, so there is one.
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
    """Deals trouble at a rate: some kinds once in the beginning, then all others in turn."""

    def __init__(
        self, seed: str, rate: float, first: Iterable[Kind], kinds: Iterable[Kind]
    ) -> None:
        self._drawn = random.Random(seed)
        self._rate = rate
        self._kinds = itertools.chain(first, itertools.cycle(kinds))

    def deal(self) -> Trouble | None:
        """The next trouble, or none."""
        if self._drawn.random() > self._rate:
            return None
        kind, is_late = next(self._kinds), self._drawn.random() < LATE
        return Trouble(kind, is_late=is_late and kind in MAY_BE_LATE)
