"""How many tasks one call carries: several batches where tasks are quick and small. Pure.

To send a call costs the driver about a millisecond, whatever is in it; where a batch takes far less
than that, the driver and not the stage would set the pace. But no more than the stages below keep
up with: what was begun and waits for them is lost with the driver. It must not know what sends
calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from strandline.plan.receipt import Output, Receipt, StageCounts

CALL_SECONDS = 0.02
# A disk is waited for as long for many outputs as for one.
SINK_SECONDS = 0.25
# Share of a core from which on a driver is short of time, and how long that is watched.
BUSY = 0.6
LOAD_SECONDS = 0.5
MOST_STRETCH = 64.0
CALL_SECONDS_OF_BUSY = 1.0  # as much is lost with each worker
CALL_BYTES = 1_000_000
CALL_TASKS = 256
ROUNDS = 2
_WEIGHT = 0.25  # weight of the last call
# Tasks that wait to fill a file are not finished, and may be lost: so long, and so many at most.
MOST_SECONDS = 300.0
MOST_TASKS = 10_000


class TaskCost:
    """What a task of one stage costs, as its last calls tell.

    Attributes:
        seconds: that the stage works on one; None before the first.
        bytes_made: that come of one.
        bytes_out: of one that comes out.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.bytes_made = 0.0
        self.bytes_out = 0.0
        self._has_made = False

    def note(self, counts: StageCounts, size: int) -> None:
        """Take a call into account that has ended.

        Args:
            size: bytes of all that came of it.
        """
        if not counts.tasks_in:
            return
        weight = 1.0 if self.seconds is None else _WEIGHT
        seconds = self.seconds or 0.0
        self.seconds = seconds + weight * (counts.seconds / counts.tasks_in - seconds)
        self.bytes_made += weight * (size / counts.tasks_in - self.bytes_made)

    def note_part(self, tasks_out: int, size: int) -> None:
        """Take into account what came out of a call, which may go on.

        Args:
            size: bytes of these tasks.
        """
        if tasks_out:
            weight = _WEIGHT if self._has_made else 1.0
            self.bytes_out += weight * (size / tasks_out - self.bytes_out)
            self._has_made = True


class DriverLoad:
    """How busy a driver is with calls, and how much more each is to carry for that.

    Where many workers take short calls, the driver sets the pace. Calls that carry more then let it
    keep up; what a lost worker has begun is more, too, so they do so only there.

    Attributes:
        stretch: 1: calls are as short as they may be.
    """

    def __init__(self) -> None:
        self.stretch = 1.0
        self._since: float | None = None
        self._driven = 0.0

    def look(self, now: float, driven: float) -> None:
        """Look at what the driver took since the last look, if that is long enough ago.

        Args:
            now: seconds from any fixed point.
            driven: seconds of a core that the driver has taken so far.
        """
        if self._since is None:
            self._since, self._driven = now, driven
        elapsed = now - self._since
        if elapsed < LOAD_SECONDS:
            return
        busy = (driven - self._driven) / elapsed
        if busy > BUSY:
            self.stretch = min(MOST_STRETCH, self.stretch * 2)
        elif busy < BUSY / 3:  # twice as many calls would not be too many soon
            self.stretch = max(1.0, self.stretch / 2)
        self._since, self._driven = now, driven

    def bound_seconds(self, seconds: float) -> float:
        """Return what a call may take that is to take so long where the driver is idle."""
        return max(seconds, min(CALL_SECONDS_OF_BUSY, seconds * self.stretch))


class StageLoad(NamedTuple):
    """What bounds the calls of one stage.

    Attributes:
        call: tasks of a call at most, by what they cost; see `bound_call`.
        batch: tasks of the stage's own batch or group.
        workers: that take calls.
        ratio: tasks that come out for one that goes in.
        pace: tasks that it works on in `CALL_SECONDS`, where its calls may take longer; 0: `call`.
    """

    call: int
    batch: int
    workers: int
    ratio: float
    pace: int = 0


def level_calls(stages: Sequence[StageLoad]) -> list[int]:
    """Return each stage's most tasks of a call: no more than those below work on soon.

    A round is one call in each worker of a stage. One of any stage makes as many tasks as the
    slowest stage below it takes in `ROUNDS`, so what is begun ahead of that one is a few of its
    calls, however quick and small the tasks are for those above it.

    Returns:
        For each a whole number of its batches, one at least, and no more than its `call`.
    """
    sizes = []
    room = math.inf  # tasks that all below take in one round, as tasks that come out here
    for call, batch, workers, ratio, pace in reversed(stages):
        room = room / ratio if ratio else math.inf
        most = max(batch, min(call, int(min(ROUNDS * room / workers, CALL_TASKS))))
        sizes.append(max(batch, most // batch * batch))
        # A sink's long calls are made up of what waits: those above need not send as much at once.
        room = min(room, float(max(pace or call, batch) * workers))
    return sizes[::-1]


def size_call(most: int, batch: int, waiting: int, workers: int, stretch: float = 1.0) -> int:
    """Return tasks of the next call: a batch, or a whole number of them.

    No more than one worker's share of what waits, so that none has much to do while others have
    nothing.

    Args:
        most: that a call may have; see `level_calls`.
        batch: tasks of the stage's own.
        waiting: tasks.
        workers: that take calls.
        stretch: shares of a call, where the driver can't give each worker its own.
    """
    share = math.ceil(waiting / max(1, workers) * stretch)
    return max(batch, min(most, share // batch * batch))


def bound_call(cost: TaskCost, bytes_in: float, batch: int, seconds: float = CALL_SECONDS) -> int:
    """Return the most tasks of a call by their cost: `CALL_BYTES`, so many seconds, or one batch.

    Args:
        bytes_in: of one task that comes in.
        batch: tasks of the stage's own.
        seconds: that a call may take.
    """
    if cost.seconds is None or batch >= CALL_TASKS:
        return batch
    large = max(bytes_in, cost.bytes_made)
    quick = seconds / cost.seconds if cost.seconds else CALL_TASKS
    small = CALL_BYTES / large if large else CALL_TASKS
    tasks = int(min(CALL_TASKS, quick, small))
    return max(batch, tasks // batch * batch)


class FileFilling:
    """What fills one file, by what calls before have written.

    Args:
        target: bytes of a file.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._written: float | None = None  # bytes of a file for each task
        self._since: float | None = None

    def note(self, receipt: Receipt) -> None:
        """Take a call of the sink into account."""
        left = [left for event in receipt.events for left in event.outputs]
        # Companions of a shared file are no part of its target.
        outputs = [each for each in left if isinstance(each, Output)]
        sizes = [output.size for output in outputs if not output.is_companion]
        if any(sizes):
            size = sum(sizes) / len(sizes)
            known = size if self._written is None else self._written
            self._written = known + _WEIGHT * (size - known)

    def count_tasks(self, bytes_in: float) -> int:
        """Return the tasks that fill a file.

        Args:
            bytes_in: of a task in memory; asked for while none has been written.
        """
        size = bytes_in if self._written is None else self._written
        return max(1, min(MOST_TASKS, math.ceil(self._target / max(1.0, size))))

    def must_wait(self, waiting: int, bytes_in: float, now: float, *, may_grow: bool) -> bool:
        """Return whether what waits is to wait for more.

        Args:
            waiting: tasks.
            now: seconds from any fixed point.
            may_grow: more may come.
        """
        if not waiting:
            self._since = None
            return False
        since = self._since = now if self._since is None else self._since
        is_full = waiting >= self.count_tasks(bytes_in)
        return may_grow and not is_full and now - since < MOST_SECONDS

    def begin(self) -> None:
        """Note that what waited was handed out."""
        self._since = None
