"""A fake clock: sleeps take no real time, and sleepers wake in order of time."""

from __future__ import annotations

import asyncio
import heapq
import random
from itertools import count

from strandline_packs.models.asking.traffic.health import Clock

_TURNS = 4  # turns of the loop in which ready tasks continue before time passes


class FakeTime:
    """The clock of one event loop.

    Attributes:
        now: seconds since the start.
        slept: durations of all sleeps.
    """

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._asleep: list[tuple[float, int]] = []
        self._numbers = count()
        self._dice = random.Random(seed)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep, self._dice.random, lambda: self.now)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        own = (self.now + seconds, next(self._numbers))
        heapq.heappush(self._asleep, own)
        turns = 0
        try:
            while turns < _TURNS:
                await asyncio.sleep(0)
                turns = turns + 1 if self._asleep[0] == own else 0
        finally:
            self._asleep.remove(own)
            heapq.heapify(self._asleep)
        self.now = max(self.now, own[0])
