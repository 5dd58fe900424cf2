"""One stage's workers and the calls that are with them, as data.

Actors and references are opaque here: it knows neither Ray nor who starts, loads and ends a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.call_watch import explain_overdue
from strandline.engine.call.slots import Slot
from strandline.engine.core.call_size import TaskCost
from strandline.engine.core.loss_streak import LossStreak
from strandline.engine.core.pools import FIRST_CALL, PoolState
from strandline.plan.pipeline import StagePlan


@dataclass(slots=True, eq=False)
class Worker:
    """One actor and its calls, oldest first, by the reference of their receipt.

    Attributes:
        cpu: cores that it reserves.
        node: id of the one it is on; before it is placed, of the one that it is meant to be on.
        is_placed: it has found room, and its process has begun.
        is_ready: it is set up, and takes calls.
        is_here: it is on the driver's node.
        is_draining: it takes no new calls, and ends when it has none.
        next_number: of its next call.
        begun, ready_since, busy_since: by the clock; the last one of the call that it works on.
    """

    stage: int
    actor: Any
    cpu: float = 0.0
    node: str = ""
    begun: float = 0.0
    calls: dict[Any, Call] = field(default_factory=dict)
    is_placed: bool = False
    is_ready: bool = False
    is_here: bool = False
    is_draining: bool = False
    next_number: int = FIRST_CALL
    ready_since: float = 0.0
    busy_since: float = 0.0

    @property
    def has_suspects(self) -> bool:
        """True where it has a call of suspects, which is to be its only one."""
        return any(call.batch[0].is_suspect for call in self.calls.values())

    @property
    def current(self) -> Call | None:
        """The call that it works on; None where it has none."""
        return next(iter(self.calls.values()), None)

    @property
    def sources(self) -> set[bytes]:
        """Those that are with it."""
        return {source for call in self.calls.values() for source in call.sources}


@dataclass(slots=True)
class Call:
    """A batch that is with a worker, and the reference of the data it will give.

    Attributes:
        number: in the order in which the worker was given its calls.
        is_shown: the table of work in flight says that it is worked on.
    """

    stage: int
    worker: Worker
    batch: list[Slot]
    data: Any
    number: int
    is_shown: bool = False

    @property
    def sources(self) -> list[bytes]:
        """The source of each slot."""
        return [slot.source for slot in self.batch]


@dataclass(slots=True)
class Pool:
    """One stage's workers.

    Attributes:
        workers: ready, starting and draining ones.
        streak: workers lost in a row.
        cost: of a task.
        call: tasks that a call may carry; one batch until that was looked at.
        started, lost, recycled: workers, since the attempt began.
        past: seconds that workers which are gone were ready for.
    """

    plan: StagePlan
    workers: list[Worker] = field(default_factory=list)
    streak: LossStreak = field(default_factory=LossStreak)
    cost: TaskCost = field(default_factory=TaskCost)
    call: int = 0
    started: int = 0
    lost: int = 0
    recycled: int = 0
    past: float = 0.0

    @property
    def starting(self) -> int:
        """Workers that will take calls once they are ready."""
        return sum(not one.is_ready and not one.is_draining for one in self.workers)

    @property
    def staying(self) -> int:
        """Workers that take calls, or will."""
        return sum(not one.is_draining for one in self.workers)

    def __post_init__(self) -> None:
        self.call = self.call or self.plan.batch_size

    def list_overdue(self, now: float) -> Iterator[tuple[Worker, str]]:
        """Workers that take longer for a call than it may, and a sentence for each."""
        if self.plan.timeout is None:
            return
        for worker in self.workers:
            tasks = len(worker.current.batch) if worker.current else 0
            limit = self.plan.limit_call(tasks)
            if tasks and limit is not None and now - worker.busy_since > limit:
                yield worker, explain_overdue(tasks, limit)

    @property
    def takers(self) -> int:
        """Workers that queues are sized for; as many as it has at least, before they are there."""
        return max(self.staying, self.plan.min_workers)

    def look(self, now: float) -> PoolState:
        """How it stands."""
        ready = [one for one in self.workers if one.is_ready]
        return PoolState(
            workers=len(self.workers),
            ready=sum(not one.is_draining for one in ready),
            draining=sum(one.is_draining for one in self.workers),
            started=self.started,
            lost=self.lost,
            recycled=self.recycled,
            deaths=self.streak.causes,
            seconds=self.past + sum(now - one.ready_since for one in ready),
            under_way=sum(now - one.busy_since for one in ready if one.calls),
            oldest=max((now - one.busy_since for one in ready if one.calls), default=0.0),
        )
