"""Chooses how many tasks a call gets: several batches per call if tasks are quick and small.

Sending a call costs the driver about a millisecond, regardless of its size. If a batch takes far
less time, the driver would set the pace instead of the stage. But calls must not run far ahead of
later stages: tasks that were started and wait in their queues are lost if the driver dies. This
module has no side effects, and must not depend on how calls are sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from strandline.plan.receipt import Output, Receipt, StageCounts

# Target duration of a call, which is long compared with the millisecond that sending a call costs.
CALL_SECONDS = 0.02
# Target duration for sinks, because a sync to disk takes as long for many outputs as for one
# output.
SINK_SECONDS = 0.25
# Share of a core above which a driver counts as busy, and the interval between measurements in
# seconds.
BUSY = 0.6
LOAD_SECONDS = 0.5
MOST_STRETCH = 64.0
CALL_SECONDS_OF_BUSY = 1.0  # also the maximum work that is lost with a worker
CALL_BYTES = 1_000_000
CALL_TASKS = 256
ROUNDS = 2
_WEIGHT = 0.25  # weight of the last call in the average
# Limits for tasks that wait until they fill a file, because unfinished tasks are lost if the driver
# dies.
MOST_SECONDS = 300.0
MOST_TASKS = 10_000


class TaskCost:
    """Cost of a task of one stage, averaged over recent calls.

    Attributes:
        seconds: time that the stage needs for a task; None before the first call.
        bytes_made: bytes produced per input task.
        bytes_out: bytes per output task.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.bytes_made = 0.0
        self.bytes_out = 0.0
        self._has_made = False

    def note(self, counts: StageCounts, size: int) -> None:
        """Record a finished call.

        Args:
            size: total bytes that the call produced.
        """
        if not counts.tasks_in:
            return
        weight = 1.0 if self.seconds is None else _WEIGHT
        seconds = self.seconds or 0.0
        self.seconds = seconds + weight * (counts.seconds / counts.tasks_in - seconds)
        self.bytes_made += weight * (size / counts.tasks_in - self.bytes_made)

    def note_part(self, tasks_out: int, size: int) -> None:
        """Record part of the output of a call that may still be running.

        Args:
            size: total bytes of these tasks.
        """
        if tasks_out:
            weight = _WEIGHT if self._has_made else 1.0
            self.bytes_out += weight * (size / tasks_out - self.bytes_out)
            self._has_made = True


class DriverLoad:
    """Load of the driver, and the factor by which calls grow because of the load.

    If many workers take short calls, the driver becomes the bottleneck, and larger calls help the
    driver to keep up. Larger calls also lose more work when a worker dies, so calls grow only if
    the driver is busy.

    Attributes:
        stretch: growth factor; 1 if calls have their minimum duration.
    """

    def __init__(self) -> None:
        self.stretch = 1.0
        self._since: float | None = None
        self._driven = 0.0

    def look(self, now: float, driven: float) -> None:
        """Update the factor from the driver's CPU time, at most once per `LOAD_SECONDS`.

        Args:
            now: seconds from any fixed point.
            driven: core seconds that the driver has used so far.
        """
        if self._since is None:
            self._since, self._driven = now, driven
        elapsed = now - self._since
        if elapsed < LOAD_SECONDS:
            return
        busy = (driven - self._driven) / elapsed
        if busy > BUSY:
            self.stretch = min(MOST_STRETCH, self.stretch * 2)
        elif busy < BUSY / 3:  # even with twice as many calls, the load would stay below the limit
            self.stretch = max(1.0, self.stretch / 2)
        self._since, self._driven = now, driven

    def bound_seconds(self, seconds: float) -> float:
        """Return the time limit of a call, given the limit for an idle driver."""
        return max(seconds, min(CALL_SECONDS_OF_BUSY, seconds * self.stretch))


class StageLoad(NamedTuple):
    """Limits on the calls of one stage.

    Attributes:
        call: maximum tasks per call by cost; see `bound_call`.
        batch: number of tasks in the stage's own batch or group.
        workers: number of workers that take calls.
        ratio: output tasks per input task.
        pace: number of tasks processed in `CALL_SECONDS`, for a stage with longer calls. 0 means
            the same as `call`.
    """

    call: int
    batch: int
    workers: int
    ratio: float
    pace: int = 0


def level_calls(stages: Sequence[StageLoad]) -> list[int]:
    """Return each stage's maximum tasks per call, limited by what later stages process soon.

    A round is one call in every worker of a stage. In a round, a stage makes at most as many tasks
    as the slowest later stage takes in `ROUNDS` rounds. Therefore, only a few calls of work wait
    for the slowest stage, even if the tasks of earlier stages are quick and small.

    Returns:
        For each stage a whole number of its batches: at least one, and otherwise at most `call`.
    """
    sizes = []
    room = math.inf  # output tasks of this stage that all later stages take in one round
    for call, batch, workers, ratio, pace in reversed(stages):
        room = room / ratio if ratio else math.inf
        most = max(batch, min(call, int(min(ROUNDS * room / workers, CALL_TASKS))))
        sizes.append(max(batch, most // batch * batch))
        # Use the pace of a stage with long calls, such as a sink: its queue collects tasks between
        # calls, so earlier stages need not send all tasks of a call together.
        room = min(room, float(max(pace or call, batch) * workers))
    return sizes[::-1]


def size_call(most: int, batch: int, waiting: int, workers: int, stretch: float = 1.0) -> int:
    """Return the number of tasks of the next call: a whole number of batches.

    A call gets at most one worker's share of the waiting tasks, so that no worker is overloaded
    while others are idle.

    Args:
        most: maximum tasks of the call; see `level_calls`.
        batch: number of tasks in the stage's own batch.
        waiting: number of waiting tasks.
        workers: number of workers that take calls.
        stretch: number of shares per call. More than 1 if the driver is too busy to send a call to
            every worker.
    """
    share = math.ceil(waiting / max(1, workers) * stretch)
    return max(batch, min(most, share // batch * batch))


def bound_call(cost: TaskCost, bytes_in: float, batch: int, seconds: float = CALL_SECONDS) -> int:
    """Return the maximum tasks of a call: limited by `CALL_BYTES` and `seconds`, at least a batch.

    Args:
        bytes_in: bytes of an input task.
        batch: number of tasks in the stage's own batch.
        seconds: time that the call may take.
    """
    if cost.seconds is None or batch >= CALL_TASKS:
        return batch
    large = max(bytes_in, cost.bytes_made)
    quick = seconds / cost.seconds if cost.seconds else CALL_TASKS
    small = CALL_BYTES / large if large else CALL_TASKS
    tasks = int(min(CALL_TASKS, quick, small))
    return max(batch, tasks // batch * batch)


class FileFilling:
    """Estimates how many tasks fill a file, based on earlier calls of the sink.

    Args:
        target: target size of a file in bytes.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._written: float | None = None  # written bytes per task
        self._since: float | None = None

    def note(self, receipt: Receipt) -> None:
        """Record a call of the sink."""
        left = [left for event in receipt.events for left in event.outputs]
        # Companions of a shared file do not count toward the target size.
        outputs = [each for each in left if isinstance(each, Output)]
        sizes = [output.size for output in outputs if not output.is_companion]
        if any(sizes):
            size = sum(sizes) / len(sizes)
            known = size if self._written is None else self._written
            self._written = known + _WEIGHT * (size - known)

    def count_tasks(self, bytes_in: float) -> int:
        """Return the number of tasks that fill a file.

        Args:
            bytes_in: bytes of a task in memory; used until a file has been written.
        """
        size = bytes_in if self._written is None else self._written
        return max(1, min(MOST_TASKS, math.ceil(self._target / max(1.0, size))))

    def must_wait(self, waiting: int, bytes_in: float, now: float, *, may_grow: bool) -> bool:
        """Return whether the waiting tasks should wait for more tasks.

        Args:
            waiting: number of waiting tasks.
            bytes_in: bytes of a task in memory; see `count_tasks`.
            now: seconds from any fixed point.
            may_grow: whether more tasks may arrive.
        """
        if not waiting:
            self._since = None
            return False
        since = self._since = now if self._since is None else self._since
        is_full = waiting >= self.count_tasks(bytes_in)
        return may_grow and not is_full and now - since < MOST_SECONDS

    def begin(self) -> None:
        """Record that the waiting tasks were sent to a worker."""
        self._since = None
