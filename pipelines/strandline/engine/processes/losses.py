"""The death of a forked worker: its work is queued again, and what may be to blame is noted.

A task that takes three workers with it ends its source, and a chain whose workers die again and
again ends the attempt. It must not know how a worker is started or asked.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.engine.call.setup import PackageMissingError, StageSetupError
from strandline.engine.core.chains import WHOLE
from strandline.engine.core.flow import Flow
from strandline.engine.core.pools import DEATHS_PER_POOL, DEATHS_PER_TASK
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.worker_pool import Call, Worker
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.engine.preemption.lost_work import (
    WorkMeter,
    describe_loss,
    make_broken,
    name_loss,
)
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Failure
from strandline_api.outcome.causes import Cause


class ForkLosses:
    """Takes dead workers out; the next ones are started as work waits for them.

    Args:
        forward: takes failures of sources.

    Attributes:
        anything_died: a worker was lost in this attempt.
        work: what the run takes, and what of it is lost.
    """

    def __init__(
        self,
        flow: Flow,
        pools: PooledCalls,
        control: Control,
        incidents: Incidents,
        forward: Callable[[list[Failure]], None],
    ) -> None:
        self._flow = flow
        self._pools = pools
        self._control = control
        self._incidents = incidents
        self._forward = forward
        self.anything_died = False
        self.work = WorkMeter()
        self._unprepared: set[int] = set()

    def fail_setup(self, worker: Worker, error: StrandlineError) -> None:
        """Take out a worker that can't be set up; another is started, once for a chain.

        Raises:
            StrandlineError: it was the second of the chain, or no other would fare better.
        """
        if self._control.must_stop():  # a program that it started may have been ended as well
            self._pools.remove(worker)
            return
        # A missing package is so for each worker; anything else may be a server's.
        is_same = not isinstance(error, StageSetupError) or isinstance(error, PackageMissingError)
        if is_same or worker.stage in self._unprepared:
            raise error
        self._unprepared.add(worker.stage)
        self._pools.remove(worker)
        self._incidents.sentences.append(f"{error}; another worker is tried")

    def take_out(self, worker: Worker, why: str, cause: Cause) -> None:
        """Take a lost worker out and queue its work again.

        Args:
            why: what it was lost to, in words.
            cause: of that.

        Raises:
            PoolBrokenError: it was one too many.
        """
        if cause is Cause.KILLED and self._control.take_memory_kills():
            cause = Cause.OOM_KILLED
        current, over = worker.current, worker.over
        seconds = worker.measure_work(self._control.now())
        self.work.lose_call(name_loss(cause, is_of_node=False), seconds)
        exposed = self._count_exposed(current, cause)
        name = self._name(worker.stage, worker.link or 0)
        entry = current.entry if current else WHOLE
        calls = self._pools.remove(worker)
        self.anything_died = True
        tasks = sum(len(call.batch) for call in calls)
        self._incidents.sentences.append(describe_loss(name, cause, over, tasks, seconds, why))
        for call in reversed(calls):  # newest first, so that the oldest is the next in line
            self._requeue(call, exposed if call is current else 0, why, cause)
        streak = self._pools[worker.stage].streak
        # For memory the kernel takes the largest process, wherever the one is that grew.
        is_sure = current is not None and (exposed == 1 or cause is not Cause.OOM_KILLED)
        streak.note(entry, set(current.sources) if current and is_sure else set())
        self._check_streak(worker.stage, why, cause)

    def _count_exposed(self, current: Call | None, cause: Cause) -> int:
        """Return sources of which one may have ended the worker."""
        if current is None:
            return 0
        # Any worker may be the one that grew.
        everywhere = cause is Cause.OOM_KILLED
        return len(self._pools.list_sources() if everywhere else set(current.sources))

    def _requeue(self, call: Call, exposed: int, why: str, cause: Cause) -> None:
        is_memory = cause is Cause.OOM_KILLED
        poisoned = self._flow.requeue(
            call.stage, call.batch, exposed, holds=is_memory, most_deaths=DEATHS_PER_TASK
        )
        if not poisoned:
            return
        name = self._name(call.stage, poisoned[0].link)
        if is_memory:  # the next attempt gets more for that stage
            self._incidents.memory_failures.append(name)
        message = f"lost {DEATHS_PER_TASK} workers; the last: {why}"
        failures = [
            Failure(slot.source, slot.key, slot.token, name, message, cause.value)
            for slot in poisoned
        ]
        self._flow.fail(failures)
        self._forward(failures)

    def _check_streak(self, stage: int, why: str, cause: Cause) -> None:
        pool = self._pools[stage]
        if pool.streak.causes < DEATHS_PER_POOL or self._control.must_stop():
            return
        deaths, culprit = pool.streak.causes, pool.streak.culprit
        name = pool.plan.name if culprit is None else self._name(stage, culprit)
        raise make_broken(name, deaths, why, cause)

    def _name(self, chain: int, link: int) -> str:
        return self._flow.queues[chain].stages[link].name
