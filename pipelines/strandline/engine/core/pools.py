"""How many workers each stage gets, what each reserves, and which one a call goes to. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts

QUEUE_FACTOR = 2
CALLS_PER_WORKER = 2
FIRST_CALL = 1  # setting up is number 0
TELLING_SECONDS = 1.0  # of work; less says nothing of what is slow
DEATHS_PER_TASK = 3  # workers, before its source fails
DEATHS_PER_POOL = 4  # in a row, before the attempt ends
HEAVY = 0.4  # the part of all work from which a stage stands out


class PoolBrokenError(StrandlineError):
    """A stage's workers died again and again without a success between."""


class PoolState(NamedTuple):
    """One stage's workers at one moment.

    Attributes:
        workers: those there are, being set up or not.
        ready: those that are set up, and take calls.
        draining: those that take no new calls, and end when theirs are done.
        started, lost, recycled: since the attempt began; a recycled one had reached a limit of its
            age or memory and was replaced between two calls.
        deaths: what workers were lost to in a row, without a success between; several over one
            source are one. So many as the engine bears end the attempt.
        seconds: sum of what each worker has been ready for, those that are gone too.
        under_way: seconds that calls have taken which are not done yet.
        oldest: seconds that the one of these takes that was begun first; 0 where there is none.
        over: the sources that this one is over, in words, where it takes long.
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
    """The workers of a stage that can take a call, looked through once for many calls.

    With hundreds of workers it would cost more to look at each for every call than to send it.

    Args:
        workers: the node, the calls and the worker itself, of each that takes calls.
    """

    def __init__(self, workers: Iterable[tuple[str, int, Chosen]]) -> None:
        # By their calls and then their node, in order; a dict, since one is taken from anywhere.
        self._levels: list[dict[str, dict[Chosen, None]]] = [{} for _ in range(CALLS_PER_WORKER)]
        for node, calls, worker in workers:
            if calls < CALLS_PER_WORKER:
                self._levels[calls].setdefault(node, {})[worker] = None

    def has(self, most: int) -> bool:
        """Return whether a worker has fewer calls than `most`."""
        return any(self._levels[:most])

    @property
    def is_spread(self) -> bool:
        """Return whether they are on several nodes."""
        return len({node for level in self._levels for node in level}) > 1

    def take(self, most: int, near: Mapping[str, int]) -> Chosen:
        """Return the worker for a call: an idle one, else the one nearest to most of its input.

        There must be one.

        Args:
            most: it has fewer calls.
            near: bytes of the input by node; of two that are alike in this, the one with fewer
                calls.
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
    """Return slots that may wait for a stage before the one above it is held back.

    Args:
        call: slots of one call at most.
    """
    return call * (QUEUE_FACTOR * workers + 1)


def bound_calls(stage: StagePlan, waiting: int, starting: int, taken: int = 0) -> int:
    """Return the calls that a worker may have: one while little waits.

    Args:
        waiting: slots.
        starting: workers that are not ready yet.
        taken: slots that all workers take with a call each, where nothing follows what waits.
    """
    batch = stage.group or stage.batch_size
    # With more calls a worker, the first one that is ready would take what another could begin at
    # once, and the last calls would wait behind a long one while others are done.
    return 1 if waiting <= max(starting * batch, taken) else CALLS_PER_WORKER


def find_heaviest(counts: Mapping[str, StageCounts]) -> str | None:
    """Return the stage that most of the work is in; None where none stands out.

    Where one process does everything, that stage sets the pace.

    Args:
        counts: of each stage, by its name.
    """
    seconds = {name: each.seconds for name, each in counts.items()}
    total = sum(seconds.values())
    if total < TELLING_SECONDS:
        return None
    name = max(seconds, key=seconds.__getitem__)
    return name if seconds[name] >= HEAVY * total else None
