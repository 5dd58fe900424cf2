"""The workers of one chain, as data: how many stand how, and which calls take long.

It must not know what starts and ends a worker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strandline.engine.core.call_size import TaskCost
from strandline.engine.core.loss_streaks import ChainStreak
from strandline.engine.core.pools import PoolState
from strandline.engine.core.workers import LONG_SECONDS, Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.worker.limits import explain_overdue
from strandline.plan.pipeline import StagePlan

# Counts that are reported once for all stages of a chain: under the first one.
_OF_FIRST: dict[str, Any] = dict.fromkeys(("started", "lost", "recycled", "deaths"), 0)


class _CallTimes(NamedTuple):
    """Seconds of calls under way: of all, of the longest, and over what that one is."""

    total: float = 0.0
    oldest: float = 0.0
    over: str = ""


@dataclass(slots=True)
class Pool:
    """The workers of one chain of stages.

    Attributes:
        workers: ready, starting and draining ones.
        streak: workers lost in a row.
        costs: of a task, by the stage of the chain that it goes to.
        call: tasks that a call may carry; one batch until that was looked at.
        started, lost, recycled: workers, since the attempt began.
        past: seconds that workers which are gone were ready for.
    """

    chain: Chain
    workers: list[Worker] = field(default_factory=list)
    streak: ChainStreak = field(init=False)
    costs: dict[int, TaskCost] = field(default_factory=lambda: defaultdict(TaskCost))
    call: int = 0
    started: int = 0
    lost: int = 0
    recycled: int = 0
    past: float = 0.0

    @property
    def plan(self) -> StagePlan:
        """The requests of its workers, as if the chain were one stage."""
        return self.chain.plan

    @property
    def cost(self) -> TaskCost:
        """The cost of a task that goes to the first stage."""
        return self.costs[0]

    @property
    def starting(self) -> int:
        """Workers that will take calls once they are ready."""
        return sum(not worker.is_ready and not worker.is_draining for worker in self.workers)

    @property
    def staying(self) -> int:
        """Workers that take calls, or will."""
        return sum(not worker.is_draining for worker in self.workers)

    def __post_init__(self) -> None:
        self.streak = ChainStreak(len(self.chain.stages))
        self.call = self.call or self.plan.batch_size

    def list_overdue(self, now: float) -> Iterator[tuple[Worker, str]]:
        """Yield workers that take longer for a call than it may, and a sentence for each."""
        if self.plan.timeout is None:
            return
        for worker in self.workers:
            # A call that waits to be asked for is no fault, however long it does.
            tasks = len(worker.current.batch) if worker.current and worker.is_working else 0
            limit = self.plan.limit_call(tasks)
            if tasks and limit is not None and now - worker.busy_since > limit:
                yield worker, explain_overdue(tasks, limit)

    @property
    def takers(self) -> int:
        """Workers that queues are sized for; as many as it has at least, before they are there."""
        return max(self.staying, self.plan.min_workers)

    def look_apart(self, now: float) -> list[PoolState]:
        """Return how it stands by the stages of its chain, each with the calls that are in it."""
        whole = self.look(now)
        rest = whole._replace(**_OF_FIRST)
        return [
            (rest if link else whole)._replace(under_way=total, oldest=oldest, over=over)
            for link, (total, oldest, over) in enumerate(self._time_calls(now))
        ]

    def _time_calls(self, now: float) -> list[_CallTimes]:
        """Return how long calls take that are in each stage."""
        times = [_CallTimes()] * len(self.chain.stages)
        for worker in self.workers:
            call = worker.current
            if worker.is_ready and worker.is_working and call is not None:
                link = call.entry[0] if worker.link is None else worker.link
                total, oldest, over = times[link]
                seconds = now - worker.busy_since
                if seconds > oldest:
                    oldest, over = seconds, worker.over if seconds >= LONG_SECONDS else ""
                times[link] = _CallTimes(total + seconds, oldest, over)
        return times

    def list_late(self, now: float) -> Iterator[Call]:
        """Yield calls of several tasks that take long, now and then."""
        for worker in self.workers:
            call = worker.current
            if call and len(call.batch) > 1 and worker.is_late(now):
                yield from [call] if now - call.split_at >= LONG_SECONDS else []

    def list_stuck(self, now: float) -> Iterator[Call]:
        """Yield calls that wait behind one that takes long, while another worker has none."""
        idle = sum(worker.is_open and not worker.calls for worker in self.workers)
        late = (worker for worker in self.workers if worker.is_late(now))
        # A paused call is begun: it can't be given back.
        waiting = (call for worker in late for call in [*worker.calls.values()][1:])
        for call in waiting:
            if idle > 0 and not call.is_paused and not call.is_asked_back:
                idle -= 1
                yield call

    def look(self, now: float) -> PoolState:
        """Return how it stands."""
        ready = [worker for worker in self.workers if worker.is_ready]
        times = self._time_calls(now)
        return PoolState(
            workers=len(self.workers),
            ready=sum(not worker.is_draining for worker in ready),
            draining=sum(worker.is_draining for worker in self.workers),
            started=self.started,
            lost=self.lost,
            recycled=self.recycled,
            deaths=self.streak.causes,
            seconds=self.past + sum(now - worker.ready_since for worker in ready),
            under_way=sum(each.total for each in times),
            oldest=max(each.oldest for each in times),
        )
