"""The workers of one chain, as data: counts by state, and slow calls.

The module must not depend on the code that starts and ends workers.
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

# A call that takes longer than both is reported with the stack of its worker.
SLOW_SECONDS, SLOW_TIMES = 30.0, 10
# Fields that count once for a whole chain. They are reported for its first stage, and are zero for
# later stages.
_OF_FIRST: dict[str, Any] = dict.fromkeys(("started", "lost", "recycled", "deaths"), 0)


class _CallTimes(NamedTuple):
    """Times of unfinished calls: total seconds, and the seconds and sources of the longest."""

    total: float = 0.0
    oldest: float = 0.0
    over: str = ""


@dataclass(slots=True)
class Pool:
    """The workers of one chain of stages.

    Attributes:
        workers: ready, starting, and draining workers.
        streak: consecutive losses of workers.
        costs: cost of a task, by the stage of the chain that receives it.
        call: number of tasks that a call may have; one batch until measured.
        started, lost, recycled: numbers of workers since the attempt began.
        past: seconds that departed workers had been ready.
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
        """The plan of the chain, with the resource requests of the pool's workers."""
        return self.chain.plan

    @property
    def cost(self) -> TaskCost:
        """The cost of a task that enters at the first stage."""
        return self.costs[0]

    @property
    def starting(self) -> int:
        """Number of workers that take calls once they are ready."""
        return sum(not worker.is_ready and not worker.is_draining for worker in self.workers)

    @property
    def staying(self) -> int:
        """Number of workers that take calls now or will later."""
        return sum(not worker.is_draining for worker in self.workers)

    def __post_init__(self) -> None:
        self.streak = ChainStreak(len(self.chain.stages))
        self.call = self.call or self.plan.batch_size

    def list_overdue(self, now: float) -> Iterator[tuple[Worker, str]]:
        """Yield workers whose call exceeds its time limit, with an explanation for each."""
        if self.plan.timeout is None:
            return
        for worker in self.workers:
            # Ignore a paused call: the time until its next part is requested does not count.
            tasks = len(worker.current.batch) if worker.current and worker.is_working else 0
            limit = self.plan.limit_call(tasks)
            if tasks and limit is not None and now - worker.busy_since > limit:
                yield worker, explain_overdue(tasks, limit)

    def list_slow(self, now: float) -> Iterator[tuple[Worker, str]]:
        """Yield workers whose call takes far longer than usual, each call once, with a sentence."""
        for worker in self.workers:
            call = worker.current
            # Most calls end here, so this check is cheap.
            if (
                call is None
                or now - worker.call_since < SLOW_SECONDS
                or call.number == worker.warned
            ):
                continue
            seconds, usual = worker.measure_work(now), self.costs[call.entry[0]].seconds
            if usual is not None and seconds > max(
                SLOW_SECONDS, SLOW_TIMES * usual * len(call.batch)
            ):
                worker.warned = call.number
                name = self.chain.stages[worker.link or call.entry[0]].name
                working = f"{name!r} has worked for {seconds:.0f} s on {worker.over}"
                yield worker, f"{working}, more than {SLOW_TIMES} times as long as usual"

    @property
    def takers(self) -> int:
        """Number of workers for which queues are sized; at least the pool's minimum."""
        return max(self.staying, self.plan.min_workers)

    def look_apart(self, now: float) -> list[PoolState]:
        """Return the state of each stage of the chain, including the calls in that stage."""
        whole = self.look(now)
        rest = whole._replace(**_OF_FIRST)
        return [
            (rest if link else whole)._replace(under_way=total, oldest=oldest, over=over)
            for link, (total, oldest, over) in enumerate(self._time_calls(now))
        ]

    def _time_calls(self, now: float) -> list[_CallTimes]:
        """Return the times of unfinished calls for each stage of the chain."""
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
        """Yield slow calls of several tasks that were not split in the last `LONG_SECONDS`."""
        for worker in self.workers:
            call = worker.current
            if call and len(call.batch) > 1 and worker.is_late(now):
                yield from [call] if now - call.split_at >= LONG_SECONDS else []

    def list_stuck(self, now: float) -> Iterator[Call]:
        """Yield calls queued behind a slow call, at most one for each idle worker."""
        idle = sum(worker.is_open and not worker.calls for worker in self.workers)
        late = (worker for worker in self.workers if worker.is_late(now))
        # A worker can't return its first call, which has begun. The same applies to paused calls.
        waiting = (call for worker in late for call in [*worker.calls.values()][1:])
        for call in waiting:
            if idle > 0 and not call.is_paused and not call.is_asked_back:
                idle -= 1
                yield call

    def look(self, now: float) -> PoolState:
        """Return the state of the pool."""
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
