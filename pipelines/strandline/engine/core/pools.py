"""Limits queues and calls per worker, and chooses the worker for a call.

This module has no side effects.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts

QUEUE_FACTOR = 2
CALLS_PER_WORKER = 2
FIRST_CALL = 1  # number 0 is the setup
TELLING_SECONDS = 1.0  # seconds of work from which the slowest stage can be determined
DEATHS_PER_TASK = 3  # number of workers that a task may end before its source fails
DEATHS_PER_POOL = 4  # number of consecutive worker losses that end the attempt
HEAVY = 0.4  # share of all work from which a stage sets the pace


class PoolBrokenError(StrandlineError):
    """Raised if a stage's workers died repeatedly, without a success in between."""


class PoolState(NamedTuple):
    """The state of one stage's workers at some moment.

    Attributes:
        workers: number of all workers, including those in setup.
        ready: number of workers that are set up and take calls.
        draining: number of workers that take no new calls and end after their current calls.
        started, lost, recycled: numbers of workers since the attempt began. A recycled worker
            reached a limit of age or memory, and was replaced between two calls.
        deaths: number of causes of consecutive losses, without a success in between. Losses over
            the same source share a cause. The attempt ends at a limit set by the engine.
        seconds: total time that workers have been ready, including workers that are gone.
        under_way: total seconds so far of unfinished calls.
        oldest: seconds so far of the oldest unfinished call; 0 if there is no call.
        over: names of the sources in the oldest call, if the call is slow; otherwise empty.
    """

    workers: int = 0
    ready: int = 0
    draining: int = 0
    started: int = 0
    lost: int = 0
    recycled: int = 0
    deaths: int = 0
    seconds: float = 0.0
    under_way: float = 0.0
    oldest: float = 0.0
    over: str = ""


Chosen = TypeVar("Chosen", bound=Hashable)


class FreeWorkers(Generic[Chosen]):
    """Workers of a stage that can take a call, in an index that serves many calls.

    With hundreds of workers, a scan per call would cost more than sending the call.

    Args:
        workers: node, number of calls, and object of each worker that takes calls.
    """

    def __init__(self, workers: Iterable[tuple[str, int, Chosen]]) -> None:
        # Index by number of calls, then by node. Workers are the keys of a dict, which keeps their
        # order and deletes quickly.
        self._levels: list[dict[str, dict[Chosen, None]]] = [{} for _ in range(CALLS_PER_WORKER)]
        for node, calls, worker in workers:
            if calls < CALLS_PER_WORKER:
                self._levels[calls].setdefault(node, {})[worker] = None

    def has(self, most: int) -> bool:
        """Return whether a worker has fewer than `most` calls."""
        return any(self._levels[:most])

    @property
    def is_spread(self) -> bool:
        """Return whether the free workers are on more than one node."""
        return len({node for level in self._levels for node in level}) > 1

    def take(self, most: int, near: Mapping[str, int]) -> Chosen:
        """Choose the worker for a call: an idle worker if possible, near most of its input.

        There must be a free worker; see `has`.

        Args:
            most: only workers with fewer calls qualify.
            near: bytes of the input by node. If several workers are equally near, the worker with
                the
                fewest calls wins.
        """
        levels = range(1, most) if not self._levels[0] else range(1)
        ranked = (
            (-near.get(node, 0), calls, node) for calls in levels for node in self._levels[calls]
        )
        _, calls, node = min(ranked, key=itemgetter(0, 1))
        level = self._levels[calls]
        worker = next(iter(level[node]))
        del level[node][worker]
        if not level[node]:
            del level[node]
        if calls + 1 < CALLS_PER_WORKER:
            self._levels[calls + 1].setdefault(node, {})[worker] = None
        return worker


def bound_queue(call: int, workers: int) -> int:
    """Return how many slots may wait for a stage before the previous stage is paused.

    Args:
        call: maximum slots of one call.
        workers: number of workers of the stage.
    """
    return call * (QUEUE_FACTOR * workers + 1)


def bound_calls(stage: StagePlan, waiting: int, starting: int, taken: int = 0) -> int:
    """Return the number of calls that a worker may have. The number is 1 if few slots wait.

    Args:
        waiting: number of waiting slots.
        starting: number of workers that are not ready yet.
        taken: number of slots that all workers together take with one call each, if no slots will
            follow the waiting slots.
    """
    batch = stage.group or stage.batch_size
    # With more calls per worker, the first ready worker would take work that other workers could
    # start immediately. The last calls would wait behind a slow call while other workers are idle.
    return 1 if waiting <= max(starting * batch, taken) else CALLS_PER_WORKER


def find_heaviest(counts: Mapping[str, StageCounts]) -> str | None:
    """Return the stage with most of the work, or None if no stage stands out.

    If all stages run in one process, this stage sets the pace.

    Args:
        counts: counts of each stage, by name.
    """
    seconds = {name: each.seconds for name, each in counts.items()}
    total = sum(seconds.values())
    if total < TELLING_SECONDS:
        return None
    name = max(seconds, key=seconds.__getitem__)
    return name if seconds[name] >= HEAVY * total else None
